/* Loops of numerical programs that nothing in bf was tuned with, each with a sum that depends on every step.
   usage: kernels NAME REPEATS */
#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double *doubles(size_t count) {
  double *a = malloc(count * sizeof *a);
  for (size_t i = 0; i < count; i++) a[i] = (double)(i * 2654435761u % 1000) / 1000 + 0.001;
  return a;
}

/* The product of two matrices, row by row, without blocks. */
static double gemm(int repeats) {
  enum { N = 512 };
  double *a = doubles(N * N), *b = doubles(N * N), *c = doubles(N * N);
  for (int r = 0; r < repeats; r++)
    for (int i = 0; i < N; i++)
      for (int k = 0; k < N; k++) {
        double s = a[i * N + k];
        for (int j = 0; j < N; j++) c[i * N + j] += s * b[k * N + j];
      }
  return c[N + 1];
}

/* The same as textbooks have it, each element a row times a column. */
static double product(int repeats) {
  enum { N = 400 };
  double *a = doubles(N * N), *b = doubles(N * N), *c = doubles(N * N);
  for (int r = 0; r < repeats; r++)
    for (int i = 0; i < N; i++)
      for (int j = 0; j < N; j++) {
        double s = 0;
        for (int k = 0; k < N; k++) s += a[i * N + k] * b[k * N + j];
        c[i * N + j] += s;
      }
  return c[N + 1];
}

/* LU decomposition in place, of a copy each time. */
static double lu(int repeats) {
  enum { N = 600 };
  double *from = doubles(N * N), *a = doubles(N * N), sum = 0;
  for (int i = 0; i < N; i++) from[i * N + i] += N;
  for (int r = 0; r < repeats; r++) {
    memcpy(a, from, N * N * sizeof *a);
    for (int k = 0; k < N; k++)
      for (int i = k + 1; i < N; i++) {
        double factor = a[i * N + k] /= a[k * N + k];
        for (int j = k + 1; j < N; j++) a[i * N + j] -= factor * a[k * N + j];
      }
    sum += a[N * N - 1];
  }
  return sum;
}

/* Jacobi iteration that prints how far it is, every hundredth time. */
static double jacobi(int repeats) {
  enum { N = 400 };
  double *a = doubles(N * N), *b = doubles(N * N), change = 0;
  for (int r = 0; r < repeats; r++) {
    change = 0;
    for (int i = 1; i < N - 1; i++)
      for (int j = 1; j < N - 1; j++) {
        double *at = a + i * N + j, new = 0.25 * (at[-1] + at[1] + at[-N] + at[N]);
        change += fabs(new - *at);
        b[i * N + j] = new;
      }
    double *swap = a;
    a = b;
    b = swap;
    if (r % 100 == 0) printf("%d %g\n", r, change);
  }
  return a[N + 1];
}

/* Gauss-Seidel iteration. */
static double seidel(int repeats) {
  enum { N = 400 };
  double *a = doubles(N * N);
  for (int r = 0; r < repeats; r++)
    for (int i = 1; i < N - 1; i++)
      for (int j = 1; j < N - 1; j++) {
        double *at = a + i * N + j;
        *at = 0.2 * (*at + at[-1] + at[1] + at[-N] + at[N]);
      }
  return a[N + 1];
}

/* Conjugate gradients with a sparse matrix, as far as memory sees them. */
static double gradients(int repeats) {
  enum { N = 40000, EACH = 9 };
  double *values = doubles(N * EACH), *x = doubles(N), *p = doubles(N), *q = doubles(N), *left = doubles(N), rho = 1;
  int *column = malloc(N * EACH * sizeof *column);
  for (int i = 0; i < N; i++)
    for (int j = 0; j < EACH; j++) column[i * EACH + j] = j ? (int)((7l * i + 1013l * j * j) % N) : i;
  for (int r = 0; r < repeats; r++) {
    double pq = 0, next = 0;
    for (int i = 0; i < N; i++) {
      double s = 0;
      for (int j = 0; j < EACH; j++) s += values[i * EACH + j] * p[column[i * EACH + j]];
      q[i] = s;
      pq += s * p[i];
    }
    for (int i = 0; i < N; i++) {
      x[i] += rho / pq * p[i];
      left[i] -= rho / pq * q[i];
      next += left[i] * left[i];
    }
    for (int i = 0; i < N; i++) p[i] = left[i] + next / rho * p[i];
    rho = next;
  }
  return x[5];
}

/* Fast Fourier transforms of the same array, radix 2. */
static double fft(int repeats) {
  enum { N = 1 << 15 };
  double complex *a = malloc(N * sizeof *a), *root = malloc(N * sizeof *root);
  for (int i = 0; i < N; i++) a[i] = i % 17, root[i] = cexp(-2 * M_PI * I * i / N);
  for (int r = 0; r < repeats; r++) {
    for (int i = 1, j = 0; i < N; i++) {
      int bit = N >> 1;
      for (; j & bit; bit >>= 1) j ^= bit;
      j ^= bit;
      if (i < j) {
        double complex swap = a[i];
        a[i] = a[j];
        a[j] = swap;
      }
    }
    for (int length = 2; length <= N; length <<= 1)
      for (int i = 0; i < N; i += length)
        for (int j = 0; j < length / 2; j++) {
          double complex low = a[i + j], high = a[i + j + length / 2] * root[N / length * j];
          a[i + j] = low + high;
          a[i + j + length / 2] = low - high;
        }
    for (int i = 0; i < N; i++) a[i] /= N;
  }
  return creal(a[3]);
}

/* Heat in three dimensions. */
static double heat(int repeats) {
  enum { N = 64 };
  double *a = doubles(N * N * N), *b = doubles(N * N * N);
  for (int r = 0; r < repeats; r++) {
    for (int i = 1; i < N - 1; i++)
      for (int j = 1; j < N - 1; j++)
        for (int k = 1; k < N - 1; k++) {
          double *at = a + (i * N + j) * N + k;
          double around = at[-1] + at[1] + at[-N] + at[N] + at[-N * N] + at[N * N];
          b[(i * N + j) * N + k] = *at + 0.1 * (around - 6 * *at);
        }
    double *swap = a;
    a = b;
    b = swap;
  }
  return a[N * N + N + 1];
}

/* Gravity between all bodies. */
static double bodies(int repeats) {
  enum { N = 1500 };
  double *x = doubles(N), *y = doubles(N), *z = doubles(N), *v = calloc(3 * N, sizeof *v);
  for (int r = 0; r < repeats; r++) {
    for (int i = 0; i < N; i++) {
      double ax = 0, ay = 0, az = 0;
      for (int j = 0; j < N; j++) {
        double dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i], d = dx * dx + dy * dy + dz * dz + 0.01;
        d = 1 / (d * sqrt(d));
        ax += dx * d, ay += dy * d, az += dz * d;
      }
      v[3 * i] += ax * 1e-3, v[3 * i + 1] += ay * 1e-3, v[3 * i + 2] += az * 1e-3;
    }
    for (int i = 0; i < N; i++) x[i] += v[3 * i], y[i] += v[3 * i + 1], z[i] += v[3 * i + 2];
  }
  return x[3];
}

/* A filter of 7 x 7 points over an image. */
static double convolution(int repeats) {
  enum { N = 256, K = 7 };
  double *image = doubles(N * N), *filter = doubles(K * K), *out = doubles(N * N);
  for (int r = 0; r < repeats; r++)
    for (int i = 0; i < N - K; i++)
      for (int j = 0; j < N - K; j++) {
        double s = 0;
        for (int u = 0; u < K; u++)
          for (int v = 0; v < K; v++) s += image[(i + u) * N + j + v] * filter[u * K + v];
        out[i * N + j] = s;
      }
  return out[7];
}

/* The triad of STREAM. */
static double triad(int repeats) {
  enum { N = 200000 };
  double *a = doubles(N), *b = doubles(N), *c = doubles(N);
  for (int r = 0; r < repeats; r++)
    for (int i = 0; i < N; i++) a[i] = b[i] + 0.1 * r * c[i];
  return a[9];
}

/* Column by column into the rows of another. */
static double transpose(int repeats) {
  enum { N = 700 };
  double *a = doubles(N * N), *b = doubles(N * N);
  for (int r = 0; r < repeats; r++)
    for (int i = 0; i < N; i++)
      for (int j = 0; j < N; j++) b[j * N + i] = a[i * N + j] + r;
  return b[5];
}

/* Records of nine numbers, of which three are used; every tenth step is logged, each time elsewhere. */
static double records(int repeats) {
  enum { N = 20000, FIELDS = 9, LOG = 8192 };
  double (*record)[FIELDS] = (double(*)[FIELDS])doubles(N * FIELDS), *log = doubles(LOG);
  for (int r = 0; r < repeats; r++) {
    double s = 0;
    for (int i = 0; i < N; i++) {
      record[i][0] += record[i][2] * 1e-3;
      s += record[i][1];
    }
    if (r % 10 == 0) log[r / 10 * 8 % LOG] = s;
  }
  return log[repeats % LOG];
}

/* A grid of which each point becomes the mean of its neighbours, row by row, and is copied back. */
static double copies(int repeats) {
  enum { N = 400 };
  double *a = doubles(N * N), *b = doubles(N * N);
  for (int r = 0; r < repeats; r++) {
    for (int i = 1; i < N - 1; i++)
      for (int j = 1; j < N - 1; j++) {
        double *at = a + i * N + j;
        b[i * N + j] = 0.25 * (at[-1] + at[1] + at[-N] + at[N]);
      }
    for (int i = 1; i < N - 1; i++) memcpy(a + i * N + 1, b + i * N + 1, (N - 2) * sizeof *a);
  }
  return a[N + 1];
}

/* Steps that are all the same, but that each keeps its norm where no other does. */
static double history(int repeats) {
  enum { N = 50000 };
  double *x = doubles(N), *y = doubles(N), *norms = calloc(repeats, sizeof *norms);
  unsigned *index = malloc(N * sizeof *index);
  for (unsigned i = 0; i < N; i++) index[i] = i * 7919ul % N;
  for (int r = 0; r < repeats; r++) {
    for (int i = 0; i < N; i++) y[index[i]] = 0.5 * x[index[N - 1 - i]] + 1;
    double norm = 0;
    for (int i = 0; i < N; i++) {
      double change = y[i] - x[i];
      norm += change * change, x[i] += 0.3 * change;
    }
    norms[r] = norm;
  }
  return norms[repeats - 1];
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    double (*run)(int);
  } kernels[] = {{"gemm", gemm},           {"lu", lu},         {"jacobi", jacobi}, {"seidel", seidel},
                 {"gradients", gradients}, {"fft", fft},       {"heat", heat},     {"bodies", bodies},
                 {"convolution", convolution}, {"triad", triad}, {"transpose", transpose},
                 {"product", product}, {"records", records}, {"copies", copies}, {"history", history}};
  for (size_t i = 0; argc == 3 && i < sizeof kernels / sizeof *kernels; i++)
    if (!strcmp(argv[1], kernels[i].name)) return printf("%.17g\n", kernels[i].run(atoi(argv[2]))) < 0;
  return 2;
}
