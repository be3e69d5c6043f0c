/*
 * Two OpenMP threads: each writes a block of its own, then reads the other's, ROUNDS times. Every loop is one long stream, and few
 * of them fill a buffer.
 */
#include <omp.h>
#include <stdio.h>

#define LINE 64
#define LINES 4096
#define ROUNDS 10
#define NUMBERS (LINES * LINE / sizeof(double))

static double blocks[2][NUMBERS] __attribute__((aligned(LINE)));

__attribute__((noinline)) static void write_block(double *block, double value)
{
    for (unsigned long i = 0; i < NUMBERS; i++)
        block[i] += value;
}

__attribute__((noinline)) static double read_block(const double *block)
{
    double sum = 0;
    for (unsigned long i = 0; i < NUMBERS; i++)
        sum += block[i];
    return sum;
}

int main(void)
{
    double total = 0;
#pragma omp parallel num_threads(2) reduction(+ : total)
    {
        int me = omp_get_thread_num();
        for (int round = 0; round < ROUNDS; round++) {
            write_block(blocks[me], 1);
#pragma omp barrier
            total += read_block(blocks[1 - me]);
#pragma omp barrier
        }
    }
    printf("%.0f\n", total);
    return 0;
}
