/* Two matrix multiplications whose misses in 64 lines of 64 bytes can be counted by hand. */
#include <stdlib.h>
#include <string.h>
#define N 128
#define TILE 8

double a[N][N] __attribute__((aligned(64)));
double b[N][N] __attribute__((aligned(64)));
double c[N][N] __attribute__((aligned(64)));

static inline double element(const double *row, int k)
{
    return row[k]; /* of a */
}

__attribute__((noinline)) static void naive(void)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < N; k++)
                sum += element(a[i], k)
                    * b[k][j]; /* naive b */
            c[i][j] = sum; /* naive c */
        }
}

__attribute__((noinline)) static void blocked(void)
{
    for (int ii = 0; ii < N; ii += TILE)
        for (int jj = 0; jj < N; jj += TILE)
            for (int kk = 0; kk < N; kk += TILE)
                for (int i = ii; i < ii + TILE; i++)
                    for (int j = jj; j < jj + TILE; j++) {
                        double sum = c[i][j]; /* blocked c */
                        for (int k = kk; k < kk + TILE; k++)
                            sum += a[i][k] /* blocked a */
                                * b[k][j]; /* blocked b */
                        c[i][j] = sum; /* blocked store */
                    }
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc < 2)
        naive();
    else
        blocked();
    return c[3][5] != 0;
}
