/* One way to live and end per first argument; further ones as each says. Counts stand in the tests. */
#define _GNU_SOURCE
#include "bf_by_hand.h"
#include "../../include/bf.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <pthread.h>
#include <sys/mman.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char **arguments;
static volatile int *volatile nowhere = (volatile int *)8;

#define MODE(name) else if (!strcmp(mode, name))

static void fail(const char *what)
{
    fprintf(stderr, "failed: %s\n", what);
    _exit(99);
}

static void check(int ok, const char *what)
{
    if (!ok)
        fail(what);
}

static void wait_for(pid_t child, int status)
{
    int got;
    check(waitpid(child, &got, 0) == child && got == status, "child's status");
}

static void late(void) { loads(7); }
__attribute__((destructor)) static void later(void)
{
    if (!strcmp(arguments[1], "exit"))
        loads(5);
}

/* Handlers. */
static sigjmp_buf back;
static volatile sig_atomic_t handled;
static void count_handler(int signal)
{
    (void)signal;
    load(&handled);
    store(&handled);
    handled++;
}
static void info_handler(int signal, siginfo_t *info, void *context)
{
    check(info->si_signo == signal && context != NULL, "siginfo");
    count_handler(signal);
}
static void jumping_handler(int signal)
{
    count_handler(signal);
    siglongjmp(back, 1);
}

static void *thread_loads(void *n)
{
    loads((long)n);
    return NULL;
}

/* More lines than there is memory to remember, from threads that all exist before the first access. */
static pthread_barrier_t all_there;
static void *wide(void *first)
{
    pthread_barrier_wait(&all_there);
    for (uintptr_t line = 1; line <= 1000000; line++)
        load((char *)first + line * 64);
    return NULL;
}

static void *waiting_thread(void *pipe)
{
    loads(1000);
    check(write(((int *)pipe)[1], "x", 1) == 1, "write");
    for (;;)
        pause();
    return NULL;
}

static void *overflow(void *p)
{
    volatile char frame[4096];
    store(frame);
    frame[0] = 1;
    return (char *)overflow(p) + frame[0];
}

/* Down to where a handler has no room. */
static void *descend(void *lowest)
{
    volatile char frame[256];
    frame[0] = 0;
    if ((char *)frame - (char *)lowest > 1500)
        return (char *)descend(lowest) + frame[0];
    raise(SIGUSR1);
    return NULL;
}

static void *signalled_thread(void *lowest)
{
    loads(2000);
    return descend(lowest);
}

static void *rounding_thread(void *p)
{
    fesetround(FE_UPWARD);
    feclearexcept(FE_ALL_EXCEPT);
    errno = 77;
    loads(100000);
    check(fegetround() == FE_UPWARD, "rounding mode");
    check(fetestexcept(FE_ALL_EXCEPT) == 0, "floating-point flags");
    check(errno == 77, "errno");
    return p;
}

static pthread_key_t key;
static void key_destructor(void *rounds)
{
    loads(10);
    if ((long)rounds > 1)
        pthread_setspecific(key, (void *)((long)rounds - 1));
}
static void *keyed_thread(void *rounds)
{
    loads(1);
    pthread_setspecific(key, rounds);
    return NULL;
}

static void late_destructor(void *rounds)
{
    /* The last round comes after the runtime's destructor, like a signal between the destructors and the thread's end. */
    if ((long)rounds > 1)
        pthread_setspecific(key, (void *)((long)rounds - 1));
    else
        raise(SIGUSR1);
}

static void storm(void (*handler)(int), int flags, long wanted)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    struct itimerval fast = {{0, 50}, {0, 50}}, off = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &action, NULL);
    long rounds = 0;
    int cancellable;
    if (sigsetjmp(back, 1) == 0)
        setitimer(ITIMER_REAL, &fast, NULL);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancellable);
    check(cancellable == PTHREAD_CANCEL_ENABLE, "whether it can be cancelled");
    while (handled < wanted)
        loads(64), rounds++;
    setitimer(ITIMER_REAL, &off, NULL);
    signal(SIGALRM, SIG_IGN);
    printf("%ld %ld\n", rounds, (long)handled);
}

static void use_alternate_stack(void)
{
    static char room[65536];
    stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
    sigaltstack(&stack, NULL);
}

/* Before the C library is ready. */
static void early(int argc, char **argv, char **variables)
{
    (void)argc, (void)argv;
    for (; *variables; variables++)
        if (!strcmp(*variables, "EARLY=1"))
            loads(5);
}
__attribute__((section(".preinit_array"), used)) static void (*before_all)(int, char **, char **) = early;

int main(int argc, char **argv)
{
    arguments = argv;
    const char *mode = argv[1];
    const char *rest = argc > 2 ? argv[2] : "";
    pthread_t thread;
    pid_t child;

    if (!strcmp(mode, "nothing")) {
        return 0;
    }
    MODE("exit")
    {
        atexit(late);
        loads(100000);
        bf_reserve(&bf_call_callee);
        bf_reserve(&bf_call_callee);
        bf_reserve(&bf_call_defined);
        exit(3);
    }
    MODE("return")
    {
        loads(10);
        return 4;
    }
    MODE("title")
    {
        char *end = argv[argc - 1] + strlen(argv[argc - 1]);
        loads(2);
        memset(argv[0], ' ', end - argv[0]);
        memcpy(argv[0], "lives: idle", 11);
        _exit(0);
    }
    MODE("open-files")
    {
        loads(10);
        int last = -1;
        for (int file; (file = open("/dev/null", O_RDONLY)) >= 0;)
            last = file;
        check(errno == EMFILE && last > 2, "open");
        return fcntl(last, F_GETFD) == 0 && fcntl(0, F_GETFD) == 0 ? 4 : 1;
    }
    MODE("_exit")
    {
        loads(10);
        _exit(5);
    }
    MODE("_Exit")
    {
        loads(10);
        _Exit(6);
    }
    MODE("daemon")
    {
        loads(10);
        if (daemon(1, 1))
            return 9;
        loads(20);
    }
    MODE("quick_exit")
    {
        at_quick_exit(late);
        loads(10);
        quick_exit(7);
    }
    MODE("abort")
    {
        loads(10);
        abort();
    }
    MODE("abort-handled")
    {
        signal(SIGABRT, count_handler);
        loads(10);
        abort();
    }
    MODE("segv")
    {
        loads(10);
        *nowhere = 1;
    }
    MODE("trap")
    {
        loads(10);
        __builtin_trap();
    }
    MODE("int3")
    {
        loads(10);
        raise(SIGTRAP);
    }
    MODE("overflow")
    {
        overflow(NULL);
    }
    MODE("thread-overflow")
    {
        pthread_create(&thread, NULL, overflow, NULL);
        pthread_join(thread, NULL);
    }
    MODE("signal-overflow")
    {
        long guard = 1 << 16, size = 1 << 20;
        char *stack = mmap(NULL, guard + size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pthread_attr_t attributes;
        mprotect(stack, guard, PROT_NONE);
        signal(SIGUSR1, count_handler);
        pthread_attr_init(&attributes);
        pthread_attr_setstack(&attributes, stack + guard, size);
        pthread_create(&thread, &attributes, signalled_thread, stack + guard);
        pthread_join(thread, NULL);
        return 50;
    }
    MODE("signal")
    {
        loads(10);
        raise(atoi(rest));
        return 50;
    }
    MODE("ignored")
    {
        check(signal(SIGTERM, SIG_IGN) == SIG_DFL, "SIGTERM was at its default");
        loads(10);
        raise(SIGTERM);
        check(signal(SIGTERM, SIG_DFL) == SIG_IGN, "SIGTERM was ignored");
        loads(10);
        raise(SIGTERM);
    }
    MODE("dispositions")
    {
        struct sigaction action, old;
        memset(&action, 0, sizeof action);
        for (int i = 1; i < 65; i++)
            if (sigaction(i, NULL, &old) == 0)
                check(old.sa_handler == SIG_DFL && old.sa_flags == 0, "defaults");
        action.sa_sigaction = info_handler;
        action.sa_flags = SA_SIGINFO | SA_RESETHAND;
        check(sigaction(SIGUSR1, &action, &old) == 0 && old.sa_handler == SIG_DFL, "was default");
        check(sigaction(SIGUSR1, NULL, &old) == 0 && old.sa_sigaction == info_handler, "is the handler");
        check((old.sa_flags & ~0x04000000) == (int)(SA_SIGINFO | SA_RESETHAND), "flags");
        raise(SIGUSR1);
        check(handled == 1, "handled once");
        check(sigaction(SIGUSR1, NULL, &old) == 0 && old.sa_handler == SIG_DFL, "is default again");
        check(signal(SIGUSR2, count_handler) == SIG_DFL, "was default");
        check(sigaction(SIGUSR2, NULL, &old) == 0 && old.sa_handler == count_handler, "is the handler");
        check((old.sa_flags & SA_SIGINFO) == 0, "without siginfo");
        check(signal(SIGUSR2, SIG_DFL) == count_handler, "was the handler");
        check(sigaction(SIGKILL, &action, NULL) == -1 && errno == EINVAL, "SIGKILL");
        check(sigaction(SIGKILL, NULL, &old) == 0, "SIGKILL asked");
        check(sigaction(99, &action, NULL) == -1 && errno == EINVAL, "no signal");
        loads(3);
        raise(SIGUSR1);
    }
    MODE("raise")
    {
        /* The handler's accesses come between those before and after. */
        signal(SIGUSR1, count_handler);
        static char lines[128] __attribute__((aligned(64)));
        store(lines);
        raise(SIGUSR1);
        store(lines);
    }
    MODE("storm")
    {
        storm(count_handler, 0, atol(rest));
    }
    MODE("jump-storm")
    {
        storm(jumping_handler, 0, atol(rest));
    }
    MODE("sigaltstack-storm")
    {
        use_alternate_stack();
        storm(count_handler, SA_ONSTACK, atol(rest));
    }
    MODE("sigaltstack-jumps")
    {
        use_alternate_stack();
        struct sigaction action = {.sa_handler = jumping_handler, .sa_flags = SA_ONSTACK};
        sigaction(SIGUSR1, &action, NULL);
        for (volatile long i = 0; i < atol(rest); i++)
            if (sigsetjmp(back, 1) == 0) {
                loads(10);
                raise(SIGUSR1);
            }
    }
    MODE("fault-jump")
    {
        /* A segment whose second access faults, so its words stay zero. */
        signal(SIGSEGV, jumping_handler);
        for (volatile long i = 0; i < 1000; i++)
            if (sigsetjmp(back, 1) == 0) {
                volatile uint64_t *words = bf_reserve(&bf_load_store8);
                words[1] = (uint64_t)&i;
                *nowhere = 1;
                words[2] = 8;
            }
    }
    MODE("fork")
    {
        loads(100);
        if ((child = fork()) == 0) {
            loads(30);
            if (!strcmp(rest, "_exit"))
                _exit(1);
            exit(1);
        }
        wait_for(child, 1 << 8);
        loads(1);
    }
    MODE("fork-threads")
    {
        int ends[2];
        check(pipe(ends) == 0, "pipe");
        for (int i = 0; i < 4; i++)
            pthread_create(&thread, NULL, waiting_thread, ends);
        char byte;
        for (int i = 0; i < 4; i++)
            check(read(ends[0], &byte, 1) == 1, "read");
        for (int i = 0; i < 20; i++)
            if ((child = fork()) == 0) {
                loads(30);
                pthread_create(&thread, NULL, thread_loads, (void *)12);
                pthread_join(thread, NULL);
                exit(0);
            } else
                wait_for(child, 0);
    }
    MODE("vfork")
    {
        loads(100);
        if ((child = vfork()) == 0) {
            execl("/bin/false", "false", (char *)NULL);
            _exit(9);
        }
        wait_for(child, 1 << 8);
        if ((child = vfork()) == 0)
            _exit(9);
        wait_for(child, 9 << 8);
        loads(1);
    }
    MODE("exec")
    {
        loads(100);
        execl("/nowhere", "nowhere", (char *)NULL);
        check(errno == ENOENT, "errno of exec");
        loads(1);
        if (!strcmp(rest, "execl"))
            execl(argv[0], argv[0], "return", (char *)NULL);
        if (!strcmp(rest, "execle"))
            execle(argv[0], argv[0], "return", (char *)NULL, environ);
        if (!strcmp(rest, "execv"))
            execv(argv[0], (char *[]){argv[0], "return", NULL});
        if (!strcmp(rest, "execlp"))
            execlp("lives", argv[0], "return", (char *)NULL);
        if (!strcmp(rest, "execvp"))
            execvp("lives", (char *[]){argv[0], "return", NULL});
        if (!strcmp(rest, "script"))
            execvp("script", (char *[]){"script", argv[0], "return", NULL});
        if (!strcmp(rest, "true"))
            execlp("true", "true", (char *)NULL);
        fail("exec");
    }
    MODE("exec-twice")
    {
        loads(2);
        execv(argv[0], (char *[]){argv[0], "exec", "execv", NULL});
    }
    MODE("system")
    {
        loads(100);
        char command[4096];
        snprintf(command, sizeof command, "env | grep -c '^BF_' ; env -i %s return", argv[0]);
        check(system(command) == 4 << 8, "system");
        char *spawned[] = {argv[0], "return", NULL};
        check(posix_spawn(&child, argv[0], NULL, NULL, spawned, environ) == 0, "posix_spawn");
        wait_for(child, 4 << 8);
    }
    MODE("threads")
    {
        pthread_t all[8];
        for (long i = 0; i < 8; i++)
            pthread_create(&all[i], NULL, thread_loads, (void *)20000);
        for (int i = 0; i < 8; i++)
            pthread_join(all[i], NULL);
    }
    MODE("short-threads")
    {
        for (int i = 0; i < atoi(rest); i++) {
            pthread_create(&thread, NULL, thread_loads, (void *)3);
            pthread_join(thread, NULL);
        }
    }
    MODE("small-stack")
    {
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, 16384);
        pthread_create(&thread, &attributes, thread_loads, (void *)100000);
        pthread_join(thread, NULL);
    }
    MODE("alive")
    {
        int ends[2];
        char byte;
        check(pipe(ends) == 0, "pipe");
        for (int i = 0; i < 3; i++) {
            pthread_create(&thread, NULL, waiting_thread, ends);
            pthread_detach(thread);
        }
        for (int i = 0; i < 3; i++)
            check(read(ends[0], &byte, 1) == 1, "read");
        return 0;
    }
    MODE("main-leaves")
    {
        loads(10);
        pthread_create(&thread, NULL, thread_loads, (void *)1000);
        pthread_exit(NULL);
    }
    MODE("keys")
    {
        pthread_key_create(&key, key_destructor);
        pthread_create(&thread, NULL, keyed_thread, (void *)2);
        pthread_join(thread, NULL);
        pthread_create(&thread, NULL, keyed_thread, (void *)9);
        pthread_join(thread, NULL);
    }
    MODE("late-handler")
    {
        pthread_attr_t attributes;
        long size = 1 << 20;
        void *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        signal(SIGUSR1, count_handler);
        pthread_key_create(&key, late_destructor);
        pthread_attr_init(&attributes);
        pthread_attr_setstack(&attributes, stack, size);
        pthread_create(&thread, &attributes, keyed_thread, (void *)4);
        pthread_join(thread, NULL);
        mprotect(stack, size, PROT_NONE);
        loads(20);
    }
    MODE("state")
    {
        rounding_thread(NULL);
        pthread_create(&thread, NULL, rounding_thread, NULL);
        pthread_join(thread, NULL);
    }
    MODE("calipers")
    {
        loads(1000);
        bf_stop();
        loads(200);
        bf_start();
        bf_tag("one");
        loads(30);
        bf_tag("two");
        loads(5);
        bf_stop();
        bf_stop();
        bf_start();
        loads(7);
        bf_start();
        bf_tag("one");
        loads(4);
        bf_tag(NULL);
        loads(1);
    }
    MODE("many-tags")
    {
        char name[32];
        for (int i = 0; i < 300; i++) {
            snprintf(name, sizeof name, "tag %d", i);
            bf_tag(name);
            loads(1);
        }
    }
    MODE("tag-threads")
    {
        pthread_t all[4];
        loads(1); /* the first slot is this thread's */
        for (int i = 0; i < 4; i++)
            pthread_create(&all[i], NULL, thread_loads, (void *)200000);
        for (int i = 0; i < 20000; i++) {
            bf_tag(i % 2 ? "odd" : "even");
            loads(1);
        }
        for (int i = 0; i < 4; i++)
            pthread_join(all[i], NULL);
    }
    MODE("ranges")
    {
        static struct bf_segment segment = {0, 4, 9, 0, &bf_module, 0, 0, {{BF_LOAD(16), 1, 0}, {BF_STORE_RANGE, 2, 0}, {BF_LOAD_RANGE, 4, 0}, {BF_COPY, 6, 0}}};
        static char from[1 << 20] __attribute__((aligned(4096))), to[1 << 20] __attribute__((aligned(4096)));
        volatile uint64_t *words = bf_reserve(&segment);
        words[1] = 0; /* an inactive lane */
        words[2] = (uint64_t)to, words[3] = 640;
        words[4] = (uint64_t)from, words[5] = 0;
        words[6] = (uint64_t)to, words[7] = (uint64_t)from, words[8] = sizeof to;
    }
#ifndef NO_DLOPEN
    MODE("dlopen-late")
    {
        loads(10);
        check(dlopen(rest, RTLD_NOW) != NULL, "dlopen");
    }
    MODE("dlopen")
    {
        for (int i = 0; i < 3; i++) {
            void *library = dlopen(rest, RTLD_NOW);
            check(library != NULL, "dlopen");
            ((void (*)(void))dlsym(library, "work"))();
            loads(10);
            check(dlclose(library) == 0, "dlclose");
            check(dlopen(rest, RTLD_NOW | RTLD_NOLOAD) == NULL, "unloaded");
        }
    }
#endif
    MODE("sleep")
    {
        for (int i = 0; i < 10; i++) {
            loads(10000);
            usleep(50000);
        }
        raise(SIGKILL);
    }
    MODE("wide")
    {
        pthread_barrier_init(&all_there, NULL, 1);
        wide((void *)(1ul << 40));
        puts("done");
        return 4;
    }
    MODE("wide-range")
    {
        static struct bf_segment segment = {0, 1, 3, 0, &bf_module, 0, 0, {{BF_LOAD_RANGE, 1, 0}}};
        for (int i = 0; i < 2; i++) {
            volatile uint64_t *words = bf_reserve(&segment);
            words[1] = 1ul << 40, words[2] = 256 << 20;
            loads(10000);
        }
        puts("done");
        return 4;
    }
    MODE("wide-threads")
    {
        pthread_t all[4];
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, 65536);
        pthread_barrier_init(&all_there, NULL, 5);
        for (long i = 0; i < 4; i++)
            check(pthread_create(&all[i], &attributes, wide, (void *)(i << 40)) == 0, "thread");
        wide((void *)(9ul << 40));
        for (int i = 0; i < 4; i++)
            pthread_join(all[i], NULL);
        puts("done");
        return 4;
    }
    MODE("wide-signals")
    {
        signal(SIGUSR1, count_handler);
        pthread_barrier_init(&all_there, NULL, 1);
        for (long i = 0; i < 10; i++) {
            wide((void *)(i << 40));
            raise(SIGUSR1);
            check(handled == i + 1, "handled");
        }
        check((child = fork()) >= 0, "fork");
        if (child == 0)
            abort();
        int got;
        check(waitpid(child, &got, 0) == child && WTERMSIG(got) == SIGABRT, "child's signal");
        check(signal(SIGUSR1, SIG_DFL) == count_handler, "was the handler");
        puts("done");
        fflush(stdout);
        abort();
    }
    MODE("written-then-broken")
    {
        loads(10);
        signal(SIGXFSZ, SIG_DFL);
        sigset_t set, pending;
        sigemptyset(&set);
        sigaddset(&set, SIGPIPE);
        sigprocmask(SIG_BLOCK, &set, NULL);
        check(write(1, "done\n", 5) == 5, "write");
        raise(SIGPIPE);
        execl("/nowhere", "nowhere", (char *)NULL);
        check(sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE), "the program's own is still there");
        check(!sigismember(&pending, SIGXFSZ), "the runtime's is not");
        return 4;
    }
    MODE("chdir")
    {
        loads(10);
        check(chdir("/") == 0, "chdir");
    }
    else
    {
        fail("unknown mode");
    }
    return 0;
}
