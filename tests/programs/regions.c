/* OpenMP regions that are called on two paths, as the last thing of a function, and within each other. */
#include <omp.h>
#define ALONE __attribute__((noinline)) static

/* Lines of 64 bytes. */
static volatile long sink[8][8];

ALONE void leaf(int i)
{
    sink[i][0] = 1;
}

ALONE void region(int n)
{
#pragma omp parallel for schedule(static, 1)
    for (int i = 0; i < n; i++)
        leaf(i);
}

ALONE void once(void)
{
    region(4);
    sink[0][1] = 1;
}

ALONE void twice(void)
{
    region(8);
    region(8);
    sink[0][1] = 1;
}

ALONE void last(void)
{
#pragma omp parallel
    leaf(omp_get_thread_num());
}

ALONE void inner(void)
{
#pragma omp parallel num_threads(2)
    leaf(omp_get_thread_num());
}

ALONE void outer(void)
{
#pragma omp parallel num_threads(2)
    inner();
}

int main(void)
{
    once();
    twice();
    last();
    outer();
    return 0;
}
