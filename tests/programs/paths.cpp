// Exceptions, caught by functions that are instrumented and by some that are not.
#define ALONE __attribute__((noinline)) static

extern "C" void guarded(void (*run)());

static volatile long sink;

ALONE void leaf() { sink = 1; }

ALONE void thrower(int n)
{
    sink = 1;
    if (n > 0)
        throw n;
}

struct Cleanup {
    __attribute__((always_inline)) ~Cleanup()
    {
        sink = 5;
        leaf();
    }
};

ALONE void between(int n)
{
    Cleanup cleanup;
    thrower(n);
    sink = 2;
}

ALONE void catcher()
{
    for (int i = 0; i < 4; i++) {
        try {
            between(i % 2);
        } catch (int) {
            sink = 1;
            leaf();
        }
    }
    sink = 2;
}

ALONE void run()
{
    sink = 1;
    thrower(7);
    sink = 2;
}

int main()
{
    catcher();
    guarded(run);
    sink = 1;
    leaf();
    sink = 2;
}
