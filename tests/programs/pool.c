/*
 * A pool of threads that take jobs from a queue: which thread does which job is chance, what the jobs do is not. Each reads a
 * block of its own line by line, PASSES times.
 *
 * pool THREADS
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define LINE 64
#define BLOCK_LINES 256
#define PASSES 4
#define JOBS 24
#define MOST_THREADS 16

struct line { _Alignas(LINE) volatile long word; };

static struct line blocks[JOBS][BLOCK_LINES];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int offered, taken, done;

__attribute__((noinline)) static void read_block(const struct line *lines)
{
    for (int pass = 0; pass < PASSES; pass++)
        for (int at = 0; at < BLOCK_LINES; at++)
            (void)lines[at].word;
}

static void *work(void *unused)
{
    pthread_mutex_lock(&lock);
    while (taken < JOBS) {
        if (taken == offered) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        int job = taken++;
        pthread_mutex_unlock(&lock);
        read_block(blocks[job]);
        pthread_mutex_lock(&lock);
        done++;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return unused;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 2;
    pthread_t pool[MOST_THREADS];
    if (threads < 1 || threads > MOST_THREADS)
        return EXIT_FAILURE;
    for (int at = 0; at < threads; at++)
        if (pthread_create(&pool[at], NULL, work, NULL) != 0)
            return EXIT_FAILURE;
    pthread_mutex_lock(&lock);
    while (offered < JOBS) {
        offered++;
        pthread_cond_broadcast(&changed);
    }
    while (done < JOBS)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    for (int at = 0; at < threads; at++)
        pthread_join(pool[at], NULL);
    printf("%d jobs\n", done);
    return EXIT_SUCCESS;
}
