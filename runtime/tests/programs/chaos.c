/* Everything at once: threads that record, threads that come and go, tags, a handler, and forks. Prints the loads. */
#define _GNU_SOURCE
#include "bf_by_hand.h"
#include "../../include/bf.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int stop;
static volatile long recorded[4], handled;

static void handler(int signal)
{
    (void)signal;
    load(&handled);
    __sync_fetch_and_add(&handled, 1);
}

static void *few(void *p)
{
    loads(5);
    return p;
}

static void *worker(void *index)
{
    while (!stop) {
        loads(1000);
        recorded[(long)index] += 1000;
    }
    return NULL;
}

static void *spawner(void *index)
{
    while (!stop) {
        pthread_t thread;
        pthread_create(&thread, NULL, few, NULL);
        pthread_join(thread, NULL);
        recorded[(long)index] += 5;
    }
    return NULL;
}

static void *tagger(void *p)
{
    while (!stop) {
        bf_tag("a");
        bf_tag("b");
        usleep(100);
    }
    return p;
}

int main(int argc, char **argv)
{
    pthread_t threads[5];
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    signal(SIGPROF, handler);
    for (long i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, worker, (void *)i);
    pthread_create(&threads[3], NULL, spawner, (void *)3);
    pthread_create(&threads[4], NULL, tagger, NULL);
    setitimer(ITIMER_PROF, &often, NULL);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t thread;
            loads(10);
            pthread_create(&thread, NULL, few, NULL);
            pthread_join(thread, NULL);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    if (argc > 1 && !strcmp(argv[1], "kill"))
        raise(SIGTERM);
    stop = 1;
    for (int i = 0; i < 5; i++)
        pthread_join(threads[i], NULL);
    setitimer(ITIMER_PROF, &never, NULL);
    printf("%ld\n", recorded[0] + recorded[1] + recorded[2] + recorded[3] + handled);
    return 0;
}
