/* Loops of numerical programs whose threads take turns at barriers, each with a sum that depends on every step.
   usage: teams NAME REPEATS, with OMP_NUM_THREADS */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double *doubles(size_t count) {
  double *a = malloc(count * sizeof *a);
  for (size_t i = 0; i < count; i++) a[i] = (double)(i * 2654435761u % 1000) / 1000 + 0.001;
  return a;
}

/* Sweeps over a square, from one array to another and back; each thread's rows border on the next one's. */
static double jacobi(int repeats) {
  enum { N = 400 };
  double *from = doubles(N * N), *to = doubles(N * N);
  for (int r = 0; r < repeats; r++) {
#pragma omp parallel for
    for (int i = 1; i < N - 1; i++)
      for (int j = 1; j < N - 1; j++)
        to[i * N + j] =
            0.25 * (from[(i - 1) * N + j] + from[(i + 1) * N + j] + from[i * N + j - 1] + from[i * N + j + 1]);
    double *other = from;
    from = to, to = other;
    if (r % 100 == 99) fprintf(stderr, "%g\n", from[N + 1]);
  }
  return from[N + 1];
}

/* Conjugate gradients with a sparse matrix, as far as memory sees them: three loops and two sums a step. */
static double gradients(int repeats) {
  enum { N = 40000, EACH = 9 };
  double *values = doubles(N * EACH), *x = doubles(N), *p = doubles(N), *q = doubles(N), *left = doubles(N), rho = 1;
  int *column = malloc(N * EACH * sizeof *column);
  for (int i = 0; i < N; i++)
    for (int j = 0; j < EACH; j++) column[i * EACH + j] = j ? (int)((7l * i + 1013l * j * j) % N) : i;
  for (int r = 0; r < repeats; r++) {
    double pq = 0, next = 0;
#pragma omp parallel
    {
#pragma omp for reduction(+ : pq)
      for (int i = 0; i < N; i++) {
        double s = 0;
        for (int j = 0; j < EACH; j++) s += values[i * EACH + j] * p[column[i * EACH + j]];
        q[i] = s;
        pq += s * p[i];
      }
#pragma omp for reduction(+ : next)
      for (int i = 0; i < N; i++) {
        x[i] += rho / pq * p[i];
        left[i] -= rho / pq * q[i];
        next += left[i] * left[i];
      }
#pragma omp for
      for (int i = 0; i < N; i++) p[i] = left[i] + next / rho * p[i];
    }
    rho = next;
  }
  return x[5];
}

/* The product of two matrices; all threads read the whole of one. */
static double gemm(int repeats) {
  enum { N = 256 };
  double *a = doubles(N * N), *b = doubles(N * N), *c = doubles(N * N);
  for (int r = 0; r < repeats; r++)
#pragma omp parallel for
    for (int i = 0; i < N; i++)
      for (int k = 0; k < N; k++) {
        double s = a[i * N + k];
        for (int j = 0; j < N; j++) c[i * N + j] += s * b[k * N + j];
      }
  return c[N + 1];
}

/* Forces of all bodies on all others, then they move. */
static double bodies(int repeats) {
  enum { N = 2000 };
  double *x = doubles(N), *v = doubles(N);
  for (int r = 0; r < repeats; r++) {
#pragma omp parallel for
    for (int i = 0; i < N; i++) {
      double force = 0;
      for (int j = 0; j < N; j++) {
        double d = x[j] - x[i] + 1e-3;
        force += d / (fabs(d * d * d) + 0.01);
      }
      v[i] += 1e-6 * force;
    }
#pragma omp parallel for
    for (int i = 0; i < N; i++) x[i] += v[i];
  }
  return x[5];
}

/* A sum of two long arrays into a third; who reads them did not store them. */
static double triad(int repeats) {
  enum { N = 200000 };
  double *a = doubles(N), *b = doubles(N), *c = doubles(N);
  for (int r = 0; r < repeats; r++)
#pragma omp parallel for
    for (int i = 0; i < N; i++) a[i] = b[i] + 3 * c[i];
  return a[77];
}

/* The same with arrays of each thread, which no other touches. */
static double own(int repeats) {
  enum { N = 200000 };
  double sum = 0;
#pragma omp parallel reduction(+ : sum)
  {
    int len = N / omp_get_num_threads();
    double *a = doubles(len), *b = doubles(len), *c = doubles(len);
    for (int r = 0; r < repeats; r++) {
      for (int i = 0; i < len; i++) a[i] = b[i] + 3 * c[i];
#pragma omp barrier
    }
    sum += a[77];
  }
  return sum;
}

/* An array is brought up to date and its norm summed up, which each step adds to in memory. */
static double norm(int repeats) {
  enum { N = 200000 };
  double *a = doubles(N), *b = doubles(N), sum = 0;
  for (int r = 0; r < repeats; r++) {
    sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < N; i++) b[i] += 1e-3 * a[i], sum += b[i] * b[i];
  }
  return sum;
}

/* A multigrid cycle: sweeps over ever coarser squares and back, so that each level but the coarsest comes twice. */
enum { FINE = 257, LEVELS = 6 };
static double *x[LEVELS], *right[LEVELS], *other[LEVELS];

static void relax(double *x, double *other, const double *right, int n) {
  double *from = x, *to = other;
  for (int sweep = 0; sweep < 2; sweep++) {
#pragma omp parallel for
    for (int i = 1; i < n - 1; i++)
      for (int j = 1; j < n - 1; j++)
        to[i * n + j] = 0.2 * (from[i * n + j] + from[(i - 1) * n + j] + from[(i + 1) * n + j] + from[i * n + j - 1] +
                               from[i * n + j + 1] + right[i * n + j]);
    double *swap = from;
    from = to, to = swap;
  }
}

static void cycle(int level, int n) {
  relax(x[level], other[level], right[level], n);
  if (level + 1 == LEVELS) return;
  int half = n / 2 + 1;
  double *fine = x[level], *coarse = x[level + 1], *rest = right[level + 1];
#pragma omp parallel for
  for (int i = 1; i < half - 1; i++)
    for (int j = 1; j < half - 1; j++) {
      int at = 2 * i * n + 2 * j;
      rest[i * half + j] =
          right[level][at] - 4 * fine[at] + fine[at - 1] + fine[at + 1] + fine[at - n] + fine[at + n];
      coarse[i * half + j] = 0;
    }
  cycle(level + 1, half);
#pragma omp parallel for
  for (int i = 1; i < half - 1; i++)
    for (int j = 1; j < half - 1; j++) {
      int at = 2 * i * n + 2 * j;
      double more = coarse[i * half + j];
      fine[at] += more, fine[at + 1] += more, fine[at + n] += more, fine[at + n + 1] += more;
    }
  relax(fine, other[level], right[level], n);
}

static double cycles(int repeats) {
  for (int level = 0, n = FINE; level < LEVELS; level++, n = n / 2 + 1)
    x[level] = doubles(n * n), other[level] = doubles(n * n), right[level] = doubles(n * n);
  for (int r = 0; r < repeats; r++) cycle(0, FINE);
  return x[0][FINE + 1];
}

/* How often each value occurs: threads count for themselves, then add to what is common. Nothing comes again. */
static double histogram(int repeats) {
  enum { N = 1 << 18, BINS = 1 << 12 };
  unsigned *counts = calloc(BINS, sizeof *counts);
  for (int r = 0; r < repeats; r++)
#pragma omp parallel
  {
    unsigned *own = calloc(BINS, sizeof *own);
#pragma omp for
    for (int i = 0; i < N; i++) own[((i + r) * 2654435761u ^ i * 40503u) % BINS]++;
#pragma omp critical
    for (int i = 0; i < BINS; i++) counts[i] += own[i];
    free(own);
  }
  return counts[7];
}

/* A graph is searched breadth first: threads store by turns to lines that all of them load, at random. */
static double search(int repeats) {
  enum { NODES = 1 << 16, DEGREE = 8 };
  int *edges = malloc(sizeof *edges * NODES * DEGREE), *level = malloc(sizeof *level * NODES);
  int *now = malloc(sizeof *now * NODES), *next = malloc(sizeof *next * NODES), depth = 0;
  unsigned random = 1;
  for (int i = 0; i < NODES * DEGREE; i++) random = random * 1664525u + 1013904223u, edges[i] = random >> 16;
  for (int r = 0; r < repeats; r++) {
    for (int i = 0; i < NODES; i++) level[i] = -1;
    int waiting = 1;
    now[0] = r, level[r] = 0;
    for (depth = 0; waiting > 0; depth++) {
      int found = 0;
#pragma omp parallel for schedule(dynamic, 64)
      for (int i = 0; i < waiting; i++)
        for (int k = 0; k < DEGREE; k++) {
          int to = edges[now[i] * DEGREE + k];
          if (level[to] < 0 && __sync_bool_compare_and_swap(&level[to], -1, depth + 1))
            next[__sync_fetch_and_add(&found, 1)] = to;
        }
      int *before = now;
      now = next, next = before, waiting = found;
    }
  }
  return depth;
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    double (*run)(int);
  } teams[] = {
      {"jacobi", jacobi}, {"gradients", gradients}, {"gemm", gemm}, {"bodies", bodies}, {"triad", triad},
      {"own", own},       {"norm", norm},           {"cycles", cycles}, {"histogram", histogram}, {"search", search}};
  for (size_t i = 0; argc == 3 && i < sizeof teams / sizeof *teams; i++)
    if (!strcmp(argv[1], teams[i].name)) return printf("%.17g\n", teams[i].run(atoi(argv[2]))) < 0;
  return 2;
}
