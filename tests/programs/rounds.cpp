// Threads of C++ that come and go: in each round THREADS new ones copy a part each of an array that all only read into one
// that the main thread then adds up.
#include <array>
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

constexpr int THREADS = 3, ROUNDS = 4, LINE = 64, PART_LINES = 128;

struct alignas(LINE) Line {
    volatile long word;
};

using Part = std::array<Line, PART_LINES>;

static std::array<Part, THREADS> from, to;

[[gnu::noinline]] static void copy(const Part &source, Part &target, long round)
{
    for (int at = 0; at < PART_LINES; at++)
        target[at].word = source[at].word + round;
}

[[gnu::noinline]] static long add_up()
{
    long sum = 0;
    for (const Part &part : to)
        for (const Line &line : part)
            sum += line.word;
    return sum;
}

int main()
{
    long sum = 0;
    for (long round = 1; round <= ROUNDS; round++) {
        std::vector<std::thread> threads;
        for (int at = 0; at < THREADS; at++)
            threads.emplace_back(copy, std::cref(from[at]), std::ref(to[at]), round);
        for (std::thread &thread : threads)
            thread.join();
        sum += add_up();
    }
    std::printf("%ld\n", sum);
    return sum == long(ROUNDS) * (ROUNDS + 1) / 2 * THREADS * PART_LINES ? 0 : 1;
}
