/* Programs that record far more than helper threads have analysed when something happens to them; one per first argument.
   Linked at a fixed address, so that two runs reference the same lines. Counts stand in the tests. */
#define _GNU_SOURCE
#include "bf_by_hand.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MODE(name) else if (!strcmp(mode, name))

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "failed: %s (%s)\n", what, strerror(errno));
        _exit(99);
    }
}

/* `n` loads and `n` stores all over some of 16 MiB, the same ones for the same seed. */
static void work(long n, uint32_t seed)
{
    static char data[16 << 20] __attribute__((aligned(4096)));
    for (long i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        volatile uint64_t *words = bf_reserve(&bf_load_store8);
        words[1] = (uint64_t)(data + (seed >> 8) % (sizeof data - 8));
        words[2] = (uint64_t)(data + (seed >> 20) * 16);
    }
}

#define MUCH 100000

static void wait_for(pid_t child, int status)
{
    int got;
    check(waitpid(child, &got, 0) == child, "waitpid");
    check(got == status, "child's status");
}

static void *thread(void *seed)
{
    work(MUCH / 10, (uint32_t)(uintptr_t)seed);
    return NULL;
}

/* Until it is cancelled. */
static void *endless_thread(void *unused)
{
    (void)unused;
    for (;;) {
        work(MUCH / 100, 3);
        pthread_testcancel();
    }
    return NULL;
}

/* In place of the C library's, as communication libraries have them that want to know of each mapping, whoever makes it. */
static volatile int watched;

void *mmap(void *start, size_t size, int protection, int flags, int file, off_t offset)
{
    check(!watched, "mmap is the program's");
    return (void *)syscall(SYS_mmap, start, size, protection, flags, file, offset);
}

int munmap(void *start, size_t size)
{
    check(!watched, "munmap is the program's");
    return syscall(SYS_munmap, start, size);
}

void *mremap(void *start, size_t old, size_t new, int flags, ...)
{
    check(!watched, "mremap is the program's");
    return (void *)syscall(SYS_mremap, start, old, new, flags, NULL);
}

int madvise(void *start, size_t size, int advice)
{
    check(!watched, "madvise is the program's");
    return syscall(SYS_madvise, start, size, advice);
}

static void *last_thread(void *main_thread)
{
    pthread_join((pthread_t)main_thread, NULL);
    work(MUCH, 2);
    return NULL;
}

static void *forking_thread(void *unused)
{
    (void)unused;
    work(MUCH, 2);
    pid_t child = fork();
    if (child == 0) {
        work(MUCH, 3);
        exit(3);
    }
    work(MUCH, 4);
    wait_for(child, 3 << 8);
    return NULL;
}

static sigjmp_buf back;
static void jump_back(int signal) { siglongjmp(back, signal); }

static volatile int *volatile nowhere = (volatile int *)8;
static volatile sig_atomic_t alarms;
static void count_alarm(int signal)
{
    (void)signal;
    work(1, 5);
    alarms++;
}

/* `clone` fails from now on as it does when there may be no more processes. */
static void forbid_threads(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
    check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "filter");
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    if (!strcmp(mode, "return"))
        work(MUCH, 1);
    MODE("grow")
    {
        for (uintptr_t line = 1; line <= 20 * MUCH; line++)
            load((char *)(line * 64));
    }
    MODE("_exit") { work(MUCH, 1); _exit(3); }
    MODE("abort") { work(MUCH, 1); abort(); }
    MODE("crash") { work(MUCH, 1); *nowhere = 1; }
    MODE("killed") { work(MUCH, 1); raise(SIGTERM); }
    MODE("exec") { work(MUCH, 1); execl(argv[0], argv[0], "return", NULL); }
    MODE("failed-exec") { work(MUCH, 1); execl("/nowhere", "nowhere", NULL); work(MUCH, 2); }
    MODE("forever") { for (;;) work(MUCH, 1); }
    MODE("crashes")
    {
        signal(SIGSEGV, jump_back);
        for (int i = 0; i < 50; i++)
            if (sigsetjmp(back, 1) == 0) {
                work(MUCH / 50, 1);
                *nowhere = 1;
            }
    }
    MODE("alarms")
    {
        timer_t timer;
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
        struct itimerspec every = {{0, 200000}, {0, 200000}};
        signal(SIGALRM, count_alarm);
        check(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "timer");
        check(timer_settime(timer, 0, &every, NULL) == 0, "timer's start");
        work(MUCH, 1);
        check(timer_delete(timer) == 0, "timer's end");
        sigset_t all, waiting;
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, NULL);
        sigpending(&waiting);
        check(!sigismember(&waiting, SIGALRM), "a signal came late");
        printf("%d\n", alarms);
    }
    MODE("children")
    {
        work(MUCH, 1);
        for (int round = 0; round < 10; round++) {
            pid_t children[10];
            for (int i = 0; i < 10; i++)
                if ((children[i] = fork()) == 0) {
                    work(i * 1000, 2);
                    if (i % 2)
                        _exit(i);
                    exit(i);
                }
            for (int i = 0; i < 10; i++)
                wait_for(children[i], i << 8);
        }
    }
    MODE("generations")
    {
        /* Each has helpers of its own when it forks. */
        work(MUCH / 4, 1);
        for (int generation = 0; generation < 4; generation++) {
            pid_t child = fork();
            if (child > 0) {
                wait_for(child, 4 << 8);
                break;
            }
            work(MUCH / 4, 1);
        }
    }
    MODE("fork-in-thread")
    {
        pthread_t it;
        work(MUCH, 1);
        check(pthread_create(&it, NULL, forking_thread, NULL) == 0, "thread");
        work(MUCH, 5);
        pthread_join(it, NULL);
    }
    MODE("raw-fork")
    {
        work(MUCH, 1);
        pid_t child = (pid_t)syscall(SYS_fork);
        if (child == 0) {
            work(MUCH, 2);
            void *library = dlopen("libm.so.6", RTLD_NOW);
            check(library != NULL && dlclose(library) == 0, "library");
            exit(5);
        }
        wait_for(child, 5 << 8);
    }
    MODE("vfork")
    {
        work(MUCH, 1);
        pid_t child = vfork();
        if (child == 0) {
            work(MUCH, 2);
            _exit(5);
        }
        wait_for(child, 5 << 8);
    }
    MODE("threads")
    {
        for (int round = 0; round < 10; round++) {
            pthread_t threads[4];
            for (uintptr_t i = 0; i < 4; i++)
                check(pthread_create(&threads[i], NULL, thread, (void *)(i + 1)) == 0, "thread");
            for (int i = 0; i < 4; i++)
                pthread_join(threads[i], NULL);
        }
    }
    MODE("in-turn")
    {
        pthread_t it;
        work(MUCH, 1);
        check(pthread_create(&it, NULL, thread, (void *)1) == 0, "thread");
        pthread_join(it, NULL);
        work(MUCH, 2);
    }
    MODE("last-thread")
    {
        pthread_t it;
        work(MUCH, 1);
        check(pthread_create(&it, NULL, last_thread, (void *)pthread_self()) == 0, "thread");
        pthread_exit(NULL);
    }
    MODE("cancel")
    {
        work(MUCH, 1);
        for (int round = 0; round < 40; round++) {
            pthread_t threads[2];
            for (int i = 0; i < 2; i++)
                check(pthread_create(&threads[i], NULL, endless_thread, NULL) == 0, "thread");
            usleep(2000);
            for (int i = 0; i < 2; i++)
                pthread_cancel(threads[i]);
            for (int i = 0; i < 2; i++) {
                void *end;
                check(pthread_join(threads[i], &end) == 0 && end == PTHREAD_CANCELED, "its end");
            }
        }
    }
    MODE("watched") { watched = 1; work(MUCH, 1); }
    MODE("raw-exit")
    {
        work(MUCH, 1);
        syscall(SYS_exit, 7);
    }
    MODE("library")
    {
        for (int i = 0; i < 20; i++) {
            void *library = dlopen(argv[2], RTLD_NOW);
            check(library != NULL, "library");
            void (*in_library)(void) = (void (*)(void))dlsym(library, "work");
            work(MUCH / 20, 1);
            for (int times = 0; times < 100; times++)
                in_library();
            check(dlclose(library) == 0, "its end");
        }
    }
    MODE("no-threads")
    {
        forbid_threads();
        work(MUCH, 1);
    }
    MODE("ids")
    {
        pthread_t it;
        work(MUCH, 1);
        check(pthread_create(&it, NULL, thread, (void *)1) == 0, "thread");
        check(setgid(getgid()) == 0, "group");
        pthread_join(it, NULL);
    }
    MODE("apart")
    {
        /* Helpers hold none of the program's files, and its namespaces are its own. */
        int ends[2];
        char byte;
        check(pipe(ends) == 0, "pipe");
        work(MUCH, 1);
        close(ends[1]);
        check(read(ends[0], &byte, 1) == 0, "end of the pipe");
        check(unshare(CLONE_FS | CLONE_FILES) == 0, "unshare");
        work(MUCH, 2);
    }
    else return 98;
    return 4;
}
