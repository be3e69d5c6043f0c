/*
 * Threads that count, each for itself or all together. They take turns at a barrier, so that each is in the middle of the
 * others' work; how much work there is does not depend on time.
 *
 * counters       counters side by side, in lines of all threads; with -DPADDED each in a line of its own, with -DALIGNED=N at a
 *                multiple of N
 * counters one   one counter for all
 * counters read  a table that all read, and a private sum
 * counters heap  as the first, in a block that was allocated
 * counters stack as the first, on the stack of the first thread
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4
#define TURNS 8
#define STEPS 8192

#ifdef PADDED
struct counter { _Alignas(64) volatile long count; };
#else
struct counter { volatile long count; };
#endif

#ifndef ALIGNED
#define ALIGNED 64
#endif

_Alignas(ALIGNED) static struct counter counters[THREADS];
_Alignas(64) static atomic_long total;
_Alignas(64) static long table[64];
static pthread_barrier_t barrier;

__attribute__((noinline)) static void count(struct counter *mine)
{
    for (int step = 0; step < STEPS; step++)
        mine->count++; /* own */
}

__attribute__((noinline)) static void count_together(void)
{
    for (int step = 0; step < STEPS; step++)
        atomic_fetch_add(&total, 1); /* together */
}

__attribute__((noinline)) static long look_up(void)
{
    long sum = 0;
    for (int step = 0; step < STEPS; step++)
        sum += ((volatile long *)table)[step % 64]; /* read */
    return sum;
}

static const char *what = "";
static struct counter *own = counters;

static void *work(void *number)
{
    long sum = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        pthread_barrier_wait(&barrier);
        if (strcmp(what, "one") == 0)
            count_together();
        else if (strcmp(what, "read") == 0)
            sum += look_up();
        else
            count(&own[(long)number]);
    }
    return (void *)sum;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    _Alignas(64) struct counter local[THREADS] = {0};
    if (argc > 1)
        what = argv[1];
    if (strcmp(what, "heap") == 0)
        own = memset(aligned_alloc(64, sizeof counters + 64), 0, sizeof counters); /* block */
    if (strcmp(what, "stack") == 0)
        own = local;
    for (long at = 0; at < 64; at++)
        table[at] = at;
    pthread_barrier_init(&barrier, 0, THREADS);
    for (long at = 0; at < THREADS; at++)
        pthread_create(&threads[at], 0, work, (void *)at);
    for (int at = 0; at < THREADS; at++)
        pthread_join(threads[at], 0);
    printf("%ld %ld\n", own[0].count, (long)total);
    return 0;
}
