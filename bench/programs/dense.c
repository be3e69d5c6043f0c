/* Four loops that spend their time in memory, each with a sum that depends on every step.
   usage: dense stencil|matmul|molecular|lookup REPEATS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 88172645463325252u;

static uint64_t next(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

static double *doubles(size_t count) {
  double *a = malloc(count * sizeof *a);
  for (size_t i = 0; i < count; i++) a[i] = (double)(next() % 1000) / 1000;
  return a;
}

static double stencil(int repeats) {
  enum { N = 96 };
  double *a = doubles(N * N * N), *b = doubles(N * N * N);
  for (int r = 0; r < repeats; r++) {
    for (int i = 1; i < N - 1; i++)
      for (int j = 1; j < N - 1; j++)
        for (int k = 1; k < N - 1; k++) {
          int at = (i * N + j) * N + k;
          b[at] = 0.4 * a[at] + 0.1 * (a[at - 1] + a[at + 1] + a[at - N] + a[at + N] + a[at - N * N] + a[at + N * N]);
        }
    double *swap = a;
    a = b;
    b = swap;
  }
  return a[(N / 2 * N + N / 2) * N + N / 2];
}

static double matmul(int repeats) {
  enum { N = 320, B = 32 };
  double *a = doubles(N * N), *b = doubles(N * N), *c = doubles(N * N);
  for (int r = 0; r < repeats; r++)
    for (int ib = 0; ib < N; ib += B)
      for (int kb = 0; kb < N; kb += B)
        for (int jb = 0; jb < N; jb += B)
          for (int i = ib; i < ib + B; i++)
            for (int k = kb; k < kb + B; k++) {
              double s = a[i * N + k] * 1e-3;
              for (int j = jb; j < jb + B; j++) c[i * N + j] += s * b[k * N + j];
            }
  return c[N * N / 2 + 7];
}

/* Cells of atoms, forces between those of neighbouring cells, as molecular dynamics with cut-off does it. */
static double molecular(int repeats) {
  enum { S = 12, PER = 8, ATOMS = S * S * S * PER };
  double *p = doubles(3 * ATOMS), *f = calloc(3 * ATOMS, sizeof *f);
  for (int r = 0; r < repeats; r++)
    for (int cell = 0; cell < S * S * S; cell++)
      for (int near = 0; near < 27; near++) {
        int x = (cell % S + near % 3 + S - 1) % S, y = (cell / S % S + near / 3 % 3 + S - 1) % S;
        int z = (cell / S / S + near / 9 + S - 1) % S, other = (z * S + y) * S + x;
        for (int i = cell * PER; i < (cell + 1) * PER; i++)
          for (int j = other * PER; j < (other + 1) * PER; j++) {
            double d[3], square = 0.01;
            for (int k = 0; k < 3; k++) d[k] = p[3 * i + k] - p[3 * j + k], square += d[k] * d[k];
            if (square > 0.3) continue;
            for (int k = 0; k < 3; k++) f[3 * i + k] += d[k] / square;
          }
      }
  return f[ATOMS / 2];
}

static double lookup(int repeats) {
  size_t count = 8u << 20;
  double *table = doubles(count), sum = 0;
  for (int64_t i = 0; i < (int64_t)repeats * 1000000; i++) sum += table[next() % count];
  return sum;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  int repeats = atoi(argv[2]);
  double sum = !strcmp(argv[1], "stencil")     ? stencil(repeats)
               : !strcmp(argv[1], "matmul")    ? matmul(repeats)
               : !strcmp(argv[1], "molecular") ? molecular(repeats)
                                               : lookup(repeats);
  printf("%.17g\n", sum);
  return 0;
}
