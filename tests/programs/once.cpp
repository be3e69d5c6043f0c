// Two threads store the same lines by turns, ROUNDS times: one of them where it is the first to do something once, while the other
// one waits for it to be done, and that one behind it. A semaphore lets the first one go on.
#include <mutex>
#include <semaphore.h>
#include <thread>
#include <utility>

enum { LINES = 64, ROUNDS = 20, WORDS = 8 };

alignas(64) static long blocks[LINES * WORDS];
static sem_t begun, done;

__attribute__((noinline)) static void store(long value)
{
    for (int i = 0; i < LINES; i++)
        blocks[i * WORDS] += value;
}

static void first()
{
    sem_post(&begun);
    store(1);
}

#ifdef GUARD
template <int N> static void once() { static bool is_done = (first(), true); (void)is_done; }

template <int... N> static void once(int round, std::integer_sequence<int, N...>)
{
    static void (*const all[])() = {once<N>...};
    all[round]();
}

static void once(int round) { once(round, std::make_integer_sequence<int, ROUNDS>()); }
#elif defined POSIX
static pthread_once_t flags[ROUNDS];

static void once(int round) { pthread_once(&flags[round], first); }
#else
static std::once_flag flags[ROUNDS];

static void once(int round) { std::call_once(flags[round], first); }
#endif

int main()
{
    sem_init(&begun, 0, 0);
    sem_init(&done, 0, 0);
    std::thread one([] {
        for (int round = 0; round < ROUNDS; round++) {
            once(round);
            sem_wait(&done);
        }
    });
    std::thread other([] {
        for (int round = 0; round < ROUNDS; round++) {
            sem_wait(&begun);
            once(round);
            store(2);
            sem_post(&done);
        }
    });
    one.join();
    other.join();
    return blocks[0] != 3 * ROUNDS;
}
