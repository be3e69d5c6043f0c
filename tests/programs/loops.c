/* Loops of many kinds over memory at a fixed address, so that every build makes the same accesses. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { N = 97 };
struct item { double mass; int64_t id; float at[3]; char kind; };

/* Of the arena: where globals lie differs from build to build. */
struct globals { uint64_t state; volatile int64_t flag; };
static char *const arena = (char *)0x100000000000;
static struct globals *const globals = (struct globals *)(0x100000000000 + (5 << 20));

static uint64_t next(void) {
  globals->state ^= globals->state << 13;
  globals->state ^= globals->state >> 7;
  return globals->state ^= globals->state << 17;
}

__attribute__((noinline)) static void matmul(double *c, const double *a, const double *b, int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double s = 0;
      for (int k = 0; k < n; k++) s += a[i * n + k] * b[k * n + j];
      c[i * n + j] = s;
    }
}
__attribute__((noinline)) static void stencil(double *restrict b, const double *restrict a, int n) {
  for (int i = 1; i < n - 1; i++)
    for (int j = 1; j < n - 1; j++)
      b[i * n + j] = 0.2 * (a[i * n + j] + a[i * n + j - 1] + a[i * n + j + 1] + a[i * n + j - n] + a[i * n + j + n]);
}
__attribute__((noinline)) static void triad(double *a, const double *b, const double *c, long n) {
  for (long i = 0; i < n; i++) a[i] = b[i] + 3 * c[i];
}
__attribute__((noinline)) static void backwards(double *a, long n) {
  for (long i = n; i-- > 1;) a[i] += a[i - 1];
}
__attribute__((noinline)) static double walk(struct item *items, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) {
    items[i].id += i;
    sum += items[i].mass * items[i].at[1];
    items[i].kind = (char)i;
  }
  return sum;
}
__attribute__((noinline)) static void triangle(double *a, int n) {
  for (int i = 0; i < n; i++)
    for (int j = i; j < n; j++) a[j * n + i] = a[i * n + j] + 1;
}
__attribute__((noinline)) static unsigned wraps(unsigned char *a, uint8_t from, unsigned n) {
  unsigned sum = 0;
  for (unsigned i = 0; i < n; i++) sum += a[from++]++;
  for (uint32_t i = 0xfffffff0u; i != 16; i++) sum += a[i & 63];
  for (uint32_t i = 0xfffffff0u; i != 16; i++) sum += a[(uint32_t)(i + 100)];
  return sum;
}
__attribute__((noinline)) static long find(const int64_t *a, long n, int64_t wanted) {
  for (long i = 0; i < n; i++)
    if (a[i] == wanted) return i;
  return -1;
}
__attribute__((noinline)) static int64_t pointers(const int64_t *p, const int64_t *q) {
  int64_t sum = 0;
  while (p != q) sum ^= *p++;
  return sum;
}
__attribute__((noinline)) static double steps(double *a, long n, long by) {
  double sum = 0;
  for (long i = 0; i < n; i += by) sum += a[i], a[i] = i;
  return sum;
}
__attribute__((noinline)) static int64_t chase(int64_t *a, long n) {
  int64_t at = 0;
  for (long i = 0; i < n; i++) at = a[at] & 63;
  return at;
}
__attribute__((noinline)) static void gather(double *a, const int64_t *at, const double *b, long n) {
  for (long i = 0; i < n; i++) a[i] = b[at[i] & 63];
}
__attribute__((noinline)) static double conditional(const double *a, double *b, long n) {
  double sum = 0;
  for (long i = 0; i < n; i++)
    if (a[i] > 0.5) sum += b[i], b[i] = 0;
  return sum;
}
__attribute__((noinline)) static void watched(int64_t *a, long n) {
  for (long i = 0; i < n; i++) a[i] = globals->flag + __atomic_load_n(&a[i], __ATOMIC_SEQ_CST);
}
__attribute__((noinline)) static void calls(int64_t *a, long n) {
  for (long i = 0; i < n; i++) a[i] += (int64_t)next();
}
__attribute__((noinline)) static void transpose(float *a, const float *b, int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) a[j * n + i] = b[i * n + j];
}
__attribute__((noinline)) static void bytes(char *to, const char *from, long n) {
  for (long i = 0; i < n; i++) to[i] = from[i] ^ 5;
}
__attribute__((noinline)) static void twice(double *a, long n) {
  do {
    for (long i = 0; i < n; i++) a[i] *= 2;
    n /= 2;
  } while (n > 3);
}
__attribute__((noinline)) static void reduce(int64_t *total, const int64_t *a, long n) {
  for (long i = 0; i < n; i++) *total += a[i];
}
/* Of lengths that are known, which are unrolled so that they are left in their middle. */
__attribute__((noinline)) static void rows(double *to, const double *from, int n) {
  for (int i = 1; i < n; i++)
    for (int j = 1; j < 399; j++)
      to[i * 400 + j] = 0.25 * (from[(i - 1) * 400 + j] + from[(i + 1) * 400 + j] + from[i * 400 + j - 1] +
                                from[i * 400 + j + 1]);
}
__attribute__((noinline)) static void adds(int64_t *restrict a, const int64_t *restrict b) {
  for (int i = 0; i < 396; i++) a[i] += b[i];
}
__attribute__((noinline)) static void recurs(int64_t *a) {
  for (int i = 1; i < 1010; i++) a[i] += a[i - 1] * 3;
}

int main(void) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  if (mmap(arena, 1 << 24, PROT_READ | PROT_WRITE, flags, -1, 0) != arena) return 2;
  globals->state = 88172645463325252u;
  double *a = (double *)arena, *b = (double *)(arena + (1 << 20) + 24), *c = (double *)(arena + (2 << 20) + 8);
  int64_t *ints = (int64_t *)(arena + (3 << 20));
  struct item *items = (struct item *)(arena + (4 << 20) + 16);
  for (int i = 0; i < N * N; i++) a[i] = (double)(next() % 1000) / 1000, b[i] = i, ints[i] = (int64_t)next();
  for (int repeat = 0; repeat < 3; repeat++) {
    matmul(c, a, b, N), matmul(c, a, b, 3), matmul(c, a, b, 0);
    stencil(b, a, N), stencil(b, c, 33);
    triad(a, b, c, N * N), triad(a, b, c, 0), triad(a, b, c, 5), triad(a, a + 1, a + 2, 1000);
    backwards(a, 5000), backwards(b, 3);
    items[0].mass += walk(items, 700);
    triangle(c, N);
    ints[0] += wraps((unsigned char *)arena, 250, 700);
    ints[1] += find(ints, N * N, ints[4000]) + find(ints, 10, 1);
    ints[2] += pointers(ints + 5, ints + 900) + pointers(ints, ints);
    for (long by = 1; by < 20; by++) a[0] += steps(a, 3000, by);
    ints[3] += chase(ints, 1000);
    gather(c, ints, b, 2000);
    a[1] += conditional(a, b, 3000);
    watched(ints, 100);
    calls(ints, 100);
    transpose((float *)c, (float *)b, N);
    bytes(arena, arena + 3333, 10000), bytes(arena + 7, arena, 1000);
    twice(b, 3000);
    reduce(ints, ints + 1, 3000);
    rows(a, b, 9), rows(c, a, 4), rows(a, c, 1), adds(ints, ints + 1000), recurs(ints + 9);
  }
  double sum = 0;
  for (int i = 0; i < N * N; i++) sum += a[i] + b[i] * 1e-9 + (double)(ints[i] & 7);
  printf("%.17g\n", sum);
  return 0;
}
