/*
 * Two threads: each writes a block of its own, then reads the other's, ROUNDS times. Every loop is one stream, and few of them fill a
 * buffer. They wait for each other at barriers of OpenMP, of POSIX threads, of a mutex, with and without a
 * condition, of a read-write lock, of semaphores, of pipes, or of atomic numbers.
 */
#include <stdio.h>

#define LINE 64
#ifndef LINES
#define LINES 4096
#define ROUNDS 10
#endif
#define NUMBERS (LINES * LINE / sizeof(double))

static double blocks[2][NUMBERS] __attribute__((aligned(LINE)));
static struct { _Alignas(LINE) double value; } totals[2];

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

static void wait_for_other(void);

static void work(int me)
{
    double total = 0;
    for (int round = 0; round < ROUNDS; round++) {
        write_block(blocks[me], 1);
        wait_for_other();
        total += read_block(blocks[1 - me]);
        wait_for_other();
    }
    totals[me].value = total;
}

#ifdef _OPENMP
#include <omp.h>

static void wait_for_other(void)
{
#pragma omp barrier
}

static void work_both(void)
{
#pragma omp parallel num_threads(2)
    work(omp_get_thread_num());
}
#else
#include <pthread.h>

/* What they wait with has lines of its own, beside the blocks. */
#ifdef ATOMIC
#include <stdatomic.h>

static struct { _Alignas(LINE) atomic_long number; } waiting, turn;

static void wait_for_other(void)
{
    long now = atomic_load_explicit(&turn.number, memory_order_acquire);
    if (atomic_fetch_add_explicit(&waiting.number, 1, memory_order_acq_rel) == 1) {
        atomic_store_explicit(&waiting.number, 0, memory_order_relaxed);
        atomic_store_explicit(&turn.number, now + 1, memory_order_release);
    }
    while (atomic_load_explicit(&turn.number, memory_order_acquire) == now)
        ;
}
#elif defined CONDITION
static struct { _Alignas(LINE) pthread_mutex_t lock; } mutex = {PTHREAD_MUTEX_INITIALIZER};
static struct { _Alignas(LINE) pthread_cond_t changed; } condition = {PTHREAD_COND_INITIALIZER};

static void wait_for_other(void)
{
    static struct { _Alignas(LINE) long waiting, turn; } shared;
    pthread_mutex_lock(&mutex.lock);
    long turn = shared.turn;
    if (++shared.waiting == 2) {
        shared.waiting = 0;
        shared.turn++;
        pthread_cond_signal(&condition.changed);
    }
    while (turn == shared.turn)
        pthread_cond_wait(&condition.changed, &mutex.lock);
    pthread_mutex_unlock(&mutex.lock);
}
#elif defined SEMAPHORE
#include <semaphore.h>

static sem_t arrived[2];
static __thread int number;

static void wait_for_other(void)
{
    sem_post(&arrived[1 - number]);
    sem_wait(&arrived[number]);
}
#elif defined PIPE
#include <unistd.h>

static struct { _Alignas(LINE) int ends[2]; } pipes[2];
static __thread int number;

static void wait_for_other(void)
{
    static const char message = 1;
    char received;
    if (write(pipes[1 - number].ends[1], &message, 1) + read(pipes[number].ends[0], &received, 1) != 2)
        _exit(1);
}
#elif defined SHARED
#include <sched.h>
#include <stdatomic.h>

static struct { _Alignas(LINE) pthread_rwlock_t lock; } shared = {PTHREAD_RWLOCK_INITIALIZER};
static struct { _Alignas(LINE) atomic_long number; } arrived;

/* By turns, they arrive together and look alone, or arrive alone and look together. */
static void wait_for_other(void)
{
    static __thread long waits;
    int alone = waits & 1;
    if (alone)
        pthread_rwlock_wrlock(&shared.lock);
    else
        pthread_rwlock_rdlock(&shared.lock);
    atomic_fetch_add_explicit(&arrived.number, 1, memory_order_relaxed);
    pthread_rwlock_unlock(&shared.lock);
    for (long all = 2 * ++waits, now = 0; now < all; sched_yield()) {
        if (alone)
            pthread_rwlock_rdlock(&shared.lock);
        else
            pthread_rwlock_wrlock(&shared.lock);
        now = atomic_load_explicit(&arrived.number, memory_order_relaxed);
        pthread_rwlock_unlock(&shared.lock);
    }
}
#elif defined MUTEX
#include <sched.h>

static struct { _Alignas(LINE) pthread_mutex_t lock; } mutex = {PTHREAD_MUTEX_INITIALIZER};

static void wait_for_other(void)
{
    static struct { _Alignas(LINE) long waiting, turn; } shared;
    pthread_mutex_lock(&mutex.lock);
    long turn = shared.turn, now = turn;
    if (++shared.waiting == 2) {
        shared.waiting = 0;
        now = ++shared.turn;
    }
    pthread_mutex_unlock(&mutex.lock);
    while (turn == now) {
        sched_yield();
        pthread_mutex_lock(&mutex.lock);
        now = shared.turn;
        pthread_mutex_unlock(&mutex.lock);
    }
}
#else
#define BARRIER
static pthread_barrier_t barrier;

static void wait_for_other(void)
{
    pthread_barrier_wait(&barrier);
}
#endif

static void *run(void *me)
{
#if defined SEMAPHORE || defined PIPE
    number = (int)(long)me;
#endif
    work((int)(long)me);
    return NULL;
}

static void work_both(void)
{
    pthread_t other;
#ifdef BARRIER
    pthread_barrier_init(&barrier, NULL, 2);
#elif defined PIPE
    if (pipe(pipes[0].ends) || pipe(pipes[1].ends))
        _exit(1);
#endif
    pthread_create(&other, NULL, run, (void *)1);
    work(0);
    pthread_join(other, NULL);
}
#endif

int main(void)
{
    work_both();
    printf("%.0f\n", totals[0].value + totals[1].value);
    return 0;
}
