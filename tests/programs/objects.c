/* Passes over blocks of memory, whose misses in 64 lines of 64 bytes can be counted by hand. */
#include <stdlib.h>
#define LINES 1024

static volatile char table[64 * LINES] __attribute__((aligned(64)));

__attribute__((noinline)) static void pass(volatile char *block)
{
    for (long at = 0; at < LINES; at++)
        block[64 * at]++; /* pass */
}

__attribute__((noinline)) static void *made(void)
{
    return aligned_alloc(64, 64 * LINES); /* second */
}

int main(void)
{
    void *first = aligned_alloc(64, 64 * LINES); /* first */
    pass(first);
    pass(first);
    free(first);
    /* Most likely where the first one was. */
    void *second = made();
    pass(second);
    pass(table);
    pass(second);
    free(second);
    for (int i = 0; i < 3; i++) {
        volatile char *small = malloc(1000); /* thrice */
        small[0] = 1;
        free((void *)small);
    }
    volatile char *grown = calloc(100, 1);
    grown[0] = 1;
    grown = realloc((void *)grown, 64 * LINES); /* grown */
    pass(grown);
    free((void *)grown);
    volatile long local[8];
    for (int i = 0; i < 100; i++)
        local[i % 8] = i;
    return (int)local[0] == 1;
}
