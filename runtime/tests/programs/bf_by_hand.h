/* What the pass would emit, by hand: segments of loads and stores, and the words that record them. */
#ifndef BF_BY_HAND_H
#define BF_BY_HAND_H

#include <stddef.h>
#include <stdint.h>

struct bf_module {
    uint32_t type_size, abi_version;
    const char *name, *functions, *callees;
    uint32_t n_functions, n_callees;
    const uint32_t *line_sizes;
    uint32_t n_line_sizes, max_set_bits, max_ways, flags;
    const void *places;
    uint32_t reserved[4];
};

struct bf_entry {
    uint32_t what, word;
    int32_t offset;
    uint32_t site;
};

struct bf_segment {
    uint32_t id, n_entries, words, callee;
    struct bf_module *module;
    uint32_t kind, site;
    struct bf_entry entries[8];
} __attribute__((aligned(32)));

extern __thread struct { volatile uint64_t cursor, limit, reserved[5], slots, path, tail_path, tail_callee, allocation; } bf_tls __attribute__((tls_model("initial-exec")));
volatile uint64_t *bf_flush(uint64_t words);
void bf_register_module(struct bf_module *module);

#define BF_LOAD(size) ((uint32_t)(size))
#define BF_STORE(size) (1u << 28 | (uint32_t)(size))
#define BF_LOAD_RANGE (2u << 28)
#define BF_STORE_RANGE (3u << 28)
#define BF_COPY (4u << 28)

#ifndef BF_CALLEES
#define BF_CALLEES "callee\0defined\0"
#define BF_N_CALLEES 2
#endif
#ifndef BF_LINES
#define BF_LINES NULL
#define BF_N_LINES 0
#endif

static struct bf_module bf_module = {
    .type_size = sizeof(struct bf_module),
    .abi_version = 9,
    .name = __BASE_FILE__,
    .functions = "main\0defined\0",
    .callees = BF_CALLEES,
    .n_functions = 2,
    .n_callees = BF_N_CALLEES,
    .line_sizes = BF_LINES,
    .n_line_sizes = BF_N_LINES,
};

__attribute__((constructor(101))) static void bf_constructor(void) { bf_register_module(&bf_module); }

/* Reserves a segment, header written; the caller stores the addresses. */
static inline volatile uint64_t *bf_reserve(struct bf_segment *segment)
{
    uint64_t bytes = 8 * (uint64_t)segment->words;
    uint64_t at = bf_tls.cursor, next = at + bytes;
    if (next > bf_tls.limit) {
        at = (uint64_t)bf_flush(segment->words);
        next = at + bytes;
    }
    bf_tls.cursor = next;
    volatile uint64_t *words = (volatile uint64_t *)at;
    words[0] = (uint64_t)segment + (segment->words < 32 ? segment->words : 0);
    return words;
}

__attribute__((unused)) static struct bf_segment bf_load8 = {0, 1, 2, 0, &bf_module, 0, 0, {{BF_LOAD(8), 1, 0}}};
__attribute__((unused)) static struct bf_segment bf_store8 = {0, 1, 2, 0, &bf_module, 0, 0, {{BF_STORE(8), 1, 0}}};
__attribute__((unused)) static struct bf_segment bf_load_store8 = {
    0, 2, 3, 0, &bf_module, 0, 0, {{BF_LOAD(8), 1, 0}, {BF_STORE(8), 2, 0}}};
__attribute__((unused)) static struct bf_segment bf_call_callee = {0, 0, 1, 1, &bf_module, 0, 0, {{0}}};
__attribute__((unused)) static struct bf_segment bf_call_defined = {0, 0, 1, 2, &bf_module, 0, 0, {{0}}};

__attribute__((unused)) static void load(const volatile void *p) { bf_reserve(&bf_load8)[1] = (uint64_t)p; }
__attribute__((unused)) static void store(const volatile void *p) { bf_reserve(&bf_store8)[1] = (uint64_t)p; }

/* `n` loads, one after the other, of lines that lie apart. */
__attribute__((unused)) static void loads(long n)
{
    static char data[64 * 1024] __attribute__((aligned(4096)));
    for (long i = 0; i < n; i++)
        load(data + i % 1024 * 64);
}

#endif
