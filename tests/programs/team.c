/*
 * An OpenMP team in phases, each under a tag. Every thread goes the same way in each, so what caches do is known by hand.
 *
 * blocks   every thread reads a block of its own, line by line, PASSES times
 * table    all threads read the same table, which nobody ever stored to, PASSES times
 * sum      every thread adds to one sum, ADDS times
 */
#include <bf.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#define LINE 64
#define BLOCK_LINES 512
#define TABLE_LINES 128
#define PASSES 10
#define ADDS 100
#define MOST_THREADS 8

struct line { _Alignas(LINE) volatile long word; };

static struct line blocks[MOST_THREADS][BLOCK_LINES];
static struct line table[TABLE_LINES];
static struct { _Alignas(LINE) long value; } sum;

__attribute__((noinline)) static void read_all(const struct line *lines, long count)
{
    for (int pass = 0; pass < PASSES; pass++)
        for (long at = 0; at < count; at++)
            (void)lines[at].word;
}

__attribute__((noinline)) static void add_all(void)
{
    for (int add = 0; add < ADDS; add++) {
#pragma omp atomic
        sum.value += 1;
    }
}

/* From here on the whole team is in this phase: nobody is left in the one before. */
static void phase(const char *name)
{
#pragma omp barrier
#pragma omp master
    bf_tag(name);
#pragma omp barrier
}

int main(void)
{
    int threads = 0;
#pragma omp parallel
    {
        int me = omp_get_thread_num();
        phase("blocks");
        read_all(blocks[me], BLOCK_LINES);
        phase("table");
        read_all(table, TABLE_LINES);
        phase("sum");
        add_all();
        phase("rest");
#pragma omp master
        threads = omp_get_num_threads();
    }
    printf("%d %ld\n", threads, sum.value);
    return sum.value == (long)threads * ADDS ? EXIT_SUCCESS : EXIT_FAILURE;
}
