/* Functions that call each other in every way, and store so often that the counts of each call path follow from here. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define ALONE __attribute__((noinline)) static

static volatile long sink;
static volatile int threads = 4;

ALONE void leaf(void)
{
    sink = 1;
}

ALONE void middle(void)
{
    sink = 1;
    leaf();
    sink = 2;
    leaf();
    sink = 3;
}

ALONE void plain(void)
{
    middle();
    sink = 1;
    leaf();
    sink = 2;
    middle();
    sink = 3;
}

static jmp_buf back;

ALONE void deep(int n)
{
    sink = 1;
    longjmp(back, n);
}

ALONE void before(int n)
{
    sink = 1;
    deep(n);
    sink = 2;
}

ALONE void jump(void)
{
    switch (setjmp(back)) {
    case 0:
        before(1);
        break;
    case 1:
        leaf();
        before(2);
        break;
    default:
        sink = 1;
        leaf();
        sink = 2;
    }
}

ALONE void tree(int depth)
{
    sink = 1;
    if (depth > 0) {
        tree(depth - 1);
        leaf();
        tree(depth - 1);
        sink = 2;
    }
}

ALONE void even(int n);

ALONE void odd(int n)
{
    sink = 1;
    if (n > 0) {
        even(n - 1);
        sink = 2;
    }
}

ALONE void even(int n)
{
    sink = 1;
    if (n > 0) {
        odd(n - 1);
        sink = 2;
    }
}

ALONE void recursion(void)
{
    tree(5);
    even(10);
    even(100000);
    sink = 1;
}

ALONE void last(void)
{
    sink = 1;
    leaf();
    sink = 2;
}

/* May become a jump. */
ALONE void wrapper(void)
{
    sink = 1;
    last();
}

static long pair[2];

static int compare(const void *a, const void *b)
{
    sink = 1;
    return a < b ? -1 : a > b;
}

/* Jumps to what is not instrumented, and calls back. */
ALONE void sorts(void)
{
    sink = 1;
    qsort(pair, 2, sizeof pair[0], compare);
}

ALONE void tail(void)
{
    wrapper();
    sink = 1;
    sorts();
    sink = 2;
    leaf();
    sink = 3;
}

static void bye(void)
{
    sink = 1;
}

ALONE void leaves(void)
{
    sink = 1;
    exit(0);
}

ALONE void exits(void)
{
    atexit(bye);
    sink = 1;
    leaves();
}

static void *worker(void *unused)
{
    middle();
    sink = 1;
    return unused;
}

ALONE void team(void)
{
    int n = threads;
    pthread_t all[8];
    for (int i = 0; i < n; i++)
        pthread_create(&all[i], NULL, worker, NULL);
    for (int i = 0; i < n; i++)
        pthread_join(all[i], NULL);
}

static void handler(int number)
{
    (void)number;
    sink = 1;
    leaf();
    sink = 2;
}

ALONE void signals(void)
{
    static char memory[1 << 16];
    stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    sink = 1;
    raise(SIGUSR1);
    sigaltstack(&stack, NULL);
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR2, &action, NULL);
    raise(SIGUSR2);
    leaf();
    sink = 2;
}

ALONE void forks(void)
{
    sink = 1;
    pid_t child = fork();
    sink = 2;
    leaf();
    if (child == 0)
        exit(0);
    sink = 3;
}

/* Every order in which seven functions can call each other. */
typedef void visitor(unsigned);
static visitor v0, v1, v2, v3, v4, v5, v6;
static visitor *const visitors[] = {v0, v1, v2, v3, v4, v5, v6};
#define VISITOR(n)                                                                                                     \
    ALONE void v##n(unsigned seen)                                                                                     \
    {                                                                                                                  \
        seen |= 1u << n;                                                                                               \
        for (int i = 0; i < 7; i++)                                                                                    \
            if (!(seen >> i & 1))                                                                                      \
                visitors[i](seen);                                                                                     \
        sink = 1;                                                                                                      \
    }
VISITOR(0)
VISITOR(1)
VISITOR(2)
VISITOR(3)
VISITOR(4)
VISITOR(5)
VISITOR(6)

ALONE void orders(void)
{
    for (int i = 0; i < 7; i++)
        visitors[i](0);
    sink = 1;
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = {{"plain", plain},   {"jump", jump}, {"recursion", recursion}, {"tail", tail},     {"exits", exits},
               {"signals", signals}, {"team", team}, {"forks", forks},         {"orders", orders}};
    for (int i = 1; i < count; i++)
        for (unsigned k = 0; k < sizeof all / sizeof all[0]; k++)
            if (strcmp(arguments[i], all[k].name) == 0)
                all[k].run();
    sink = 1;
    return 0;
}
