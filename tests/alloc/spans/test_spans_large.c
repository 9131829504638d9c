/* Large blocks alone, on jemalloc's pages: what is told of every pointer, sizes and alignments,
 * growing and shrinking, zeros, the cache's window, threads that free the same block, blocks that
 * cross threads, a full region, and a forked child. Each test runs in a child of its own. */
#include "alloc/base/options.h"
#include "alloc/heap/fork_gate.h"
#include "alloc/heap/region.h"
#include "alloc/pages/pages.h"
#include "alloc/spans/large.h"
#include "core.h"
#include "death.h"
#include "suite.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB    ((size_t)1 << 10)
#define MIB    ((size_t)1 << 20)
#define PAGE   ((size_t)1 << HF_LG_PAGE)
#define REGION ((size_t)4 << 30)

static void start(size_t region)
{
    hf_options.dirty_decay_ms = 10000;
    must(hf_region_reserve(region) == 0);
    must(hf_pages_start());
    must(hf_spans_start());
    must(hf_locals_start());
}

static struct hf_pass enter(void)
{
    struct hf_pass pass;
    while (!hf_gate_enter(&pass))
        (void)hf_gate_wait();
    return pass;
}

static char *take(size_t size, size_t alignment, bool zeroed)
{
    const struct hf_pass pass = enter();
    char *ptr = hf_large_take(size, alignment, zeroed);
    hf_gate_leave(&pass);
    return ptr;
}

static int give(void *ptr)
{
    const struct hf_pass pass = enter();
    const int wrong = hf_large_give(ptr);
    hf_gate_leave(&pass);
    return wrong;
}

static char *resize(void *ptr, size_t size)
{
    const struct hf_pass pass = enter();
    char *resized = hf_large_resize(ptr, size);
    hf_gate_leave(&pass);
    return resized;
}

static int wrong_with(const void *ptr)
{
    int wrong;
    must((hf_large_check(ptr, &wrong) == 0) == (wrong >= 0));
    return wrong;
}

static size_t size_of(const void *ptr)
{
    int wrong;
    return hf_large_check(ptr, &wrong);
}

static bool is_held_by(const void *address, const char *ptr, size_t size)
{
    const void *block;
    return hf_large_holds(address, &block) == size && block == ptr;
}

static bool is_held(const void *address)
{
    const void *block;
    const bool held = hf_large_holds(address, &block) != 0;
    must(held == (block != NULL));
    return held;
}

/* Marks each page with the block's number and the page's. */
static void fill(char *block, size_t from, size_t to, unsigned number)
{
    for (size_t at = from & -PAGE; at + 8 <= to; at += PAGE) {
        const unsigned mark[2] = {number, (unsigned)(at / PAGE)};
        memcpy(block + at, mark, sizeof mark);
    }
}

static void check(const char *block, size_t size, unsigned number)
{
    for (size_t at = 0; at + 8 <= size; at += PAGE) {
        const unsigned mark[2] = {number, (unsigned)(at / PAGE)};
        must(memcmp(block + at, mark, sizeof mark) == 0);
    }
}

/* ---- one block ---- */

static void told_of_any_pointer(void *unused)
{
    (void)unused;
    start(REGION);
    for (size_t size = 32 * KIB + 1; size < 200 * MIB; size += size / 3)
        for (size_t alignment = 0; alignment <= 4 * MIB; alignment = alignment * 8 + PAGE) {
            char *ptr = take(size, alignment & -alignment, false);
            must(ptr != NULL && (uintptr_t)ptr % PAGE == 0);
            const size_t usable = size_of(ptr);
            must(usable >= size && hf_large_asked(ptr) == size && wrong_with(ptr) == -1);
            for (size_t at = 0; at < usable; at += usable / 7 + 1) {
                must(is_held_by(ptr + at, ptr, usable));
                must(at == 0 || (wrong_with(ptr + at) == HF_CORRUPT_INSIDE &&
                                 give(ptr + at) == HF_CORRUPT_INSIDE));
            }
            must(is_held_by(ptr + usable - 1, ptr, usable));
            for (int i = 1; i <= 16; i++)
                must(wrong_with(ptr + i) == HF_CORRUPT_INSIDE &&
                     give(ptr + i) == HF_CORRUPT_INSIDE);
            must(!is_held(ptr - 1) && !is_held(ptr + usable));
            must(give(ptr) == -1);
            /* In the cache, and when its pages have gone back. */
            must(give(ptr) == HF_CORRUPT_FREED && wrong_with(ptr) == HF_CORRUPT_FREED);
            must(resize(ptr, 2 * size) == NULL && !is_held(ptr) && !is_held(ptr + usable / 2));
            must(wrong_with(ptr + PAGE) == HF_CORRUPT_NO_BLOCK);
            hf_large_empty();
            must(give(ptr) == HF_CORRUPT_FREED && resize(ptr, size) == NULL && !is_held(ptr));
        }
    must(wrong_with((char *)hf_region.base + hf_region.size - 64 * KIB) == HF_CORRUPT_NO_BLOCK);
    must(hf_large_count().blocks == 0 && hf_large_count().kept == 0);
}

static void sizes_and_alignments(void *unused)
{
    (void)unused;
    start(REGION);
    for (size_t alignment = 16; alignment <= 64 * MIB; alignment *= 2)
        for (size_t size = 1; size < 4 * MIB; size = size * 5 + 1) {
            char *ptr = take(size, alignment, true);
            must(ptr != NULL && (uintptr_t)ptr % alignment == 0 && size_of(ptr) > HF_LARGEST);
            must(give(ptr) == -1);
        }
    must(take(PTRDIFF_MAX, 0, false) == NULL && take(SIZE_MAX, 0, false) == NULL);
    must(take((size_t)1 << 62, 0, true) == NULL && take(REGION, 0, false) == NULL);
    must(hf_large_count().blocks == 0);
}

static void zeros(void *unused)
{
    (void)unused;
    start(REGION);
    for (int turn = 0; turn < 3; turn++)
        for (size_t size = 33 * KIB; size < 9 * MIB; size += size / 2) {
            char *ptr = take(size, 0, false);
            must(ptr != NULL);
            memset(ptr, 1, size_of(ptr));
            must(give(ptr) == -1);
            ptr = take(size, 0, true);
            must(ptr != NULL && ptr[0] == 0 && memcmp(ptr, ptr + 1, size - 1) == 0);
            must(give(ptr) == -1);
        }
}

/* ---- growing and shrinking ---- */

static void grows_and_shrinks(void *unused)
{
    (void)unused;
    start(REGION);
    for (unsigned turn = 0; turn < 3; turn++) {
        size_t size = 40 * KIB;
        char *ptr = take(size, 0, false), *other = NULL;
        must(ptr != NULL);
        fill(ptr, 0, size, turn);
        while (size < 300 * MIB) {
            const size_t more = size + size / 6 + 1;
            char *grown = resize(ptr, more);
            must(grown != NULL && wrong_with(grown) == -1 && size_of(grown) >= more);
            must(hf_large_asked(grown) == more);
            must(grown == ptr || (wrong_with(ptr) >= 0 && give(ptr) >= 0 && !is_held(ptr)));
            must(is_held_by(grown + more - 1, grown, size_of(grown)));
            must(hf_large_count().blocks == 1 + (other != NULL));
            fill(grown, size, more, turn);
            check(grown, more, turn);
            /* Something lies in its way. */
            must(other == NULL || give(other) == -1);
            must((other = take(300 * KIB, 0, false)) != NULL);
            ptr = grown;
            size = more;
        }
        while (size > 100 * KIB) {
            const size_t before = size_of(ptr);
            size -= size / 3;
            char *shrunk = resize(ptr, size);
            must(shrunk == ptr && size_of(ptr) >= size && size_of(ptr) <= before);
            must(size_of(ptr) - size <= MIB + size / 2);
            must(before == size_of(ptr) || !is_held(ptr + size_of(ptr)));
            check(ptr, size, turn);
        }
        must(give(ptr) == -1 && give(other) == -1 && hf_large_count().blocks == 0);
    }
    hf_large_empty();
    hf_pages_purge();
    must(hf_large_count().moved == 0 && hf_region_used() < 9 * MIB);
}

/* ---- against a model ---- */

enum { BLOCKS = 60, STEPS = 20000 };
static struct {
    char *ptr;
    size_t size;
} model[BLOCKS];

static size_t find_in_model(const char *address)
{
    size_t i = 0;
    while (i < BLOCKS &&
           (model[i].ptr == NULL || (size_t)(address - model[i].ptr) >= size_of(model[i].ptr)))
        i++;
    return i;
}

static bool is_in_model(void *context, const void *ptr, size_t size)
{
    const size_t i = find_in_model(ptr);
    must(i < BLOCKS && model[i].ptr == ptr && size_of(ptr) == size);
    ++*(size_t *)context;
    return true;
}

static void look_anywhere(unsigned *seed)
{
    const char *address = (char *)hf_region.base +
                          ((size_t)rand_r(seed) << 10 ^ (size_t)rand_r(seed)) % hf_region.size;
    const size_t i = find_in_model(address);
    const void *block;
    const size_t size = hf_large_holds(address, &block);
    must(i == BLOCKS ? size == 0 && block == NULL
                     : block == model[i].ptr && size == size_of(model[i].ptr));
    must(wrong_with(address) >= 0 || block == address);
}

static size_t any_size(unsigned *seed)
{
    const size_t power = (size_t)1 << (15 + rand_r(seed) % 9);
    return power + (size_t)rand_r(seed) % power + 1;
}

static void agrees_with_a_model(void *unused)
{
    unsigned seed = 1;
    size_t live = 0;
    (void)unused;
    start(REGION);
    for (int step = 0; step < STEPS; step++) {
        const size_t i = (size_t)rand_r(&seed) % BLOCKS, size = any_size(&seed);
        if (model[i].ptr == NULL) {
            const size_t alignment = rand_r(&seed) % 4 == 0 ? PAGE << rand_r(&seed) % 8 : 0;
            must((model[i].ptr = take(size, alignment, false)) != NULL);
            model[i].size = size;
            fill(model[i].ptr, 0, size, (unsigned)i);
            live++;
        } else if (rand_r(&seed) % 2 == 0) {
            check(model[i].ptr, model[i].size, (unsigned)i);
            char *ptr = model[i].ptr;
            model[i].ptr = NULL;
            must(give(ptr) == -1);
            must(give(ptr) == HF_CORRUPT_FREED);
            live--;
        } else {
            must((model[i].ptr = resize(model[i].ptr, size)) != NULL);
            const size_t kept = size < model[i].size ? size : model[i].size;
            check(model[i].ptr, kept, (unsigned)i);
            fill(model[i].ptr, kept, size, (unsigned)i);
            model[i].size = size;
        }
        look_anywhere(&seed);
        if (step % 100 == 0) {
            size_t seen = 0;
            must(hf_large_each(is_in_model, &seen) && seen == live);
            const struct hf_pass pass = enter();
            hf_large_trim();
            hf_gate_leave(&pass);
        }
    }
}

/* ---- the cache ---- */

static void unneeded_blocks_go_back(void *unused)
{
    (void)unused;
    start(REGION);
    char *first = take(100 * KIB, 0, false), *second = take(100 * KIB, 0, false);
    must(first != NULL && second != NULL && give(first) == -1 && give(second) == -1);
    must(hf_large_count().kept == 2 * hf_pages_size(100 * KIB));
    char *ptr = take(100 * KIB, 0, false);
    must(ptr == second); /* the latest */
    for (int window = 0; window < 20; window++) {
        must(give(ptr) == -1);
        hf_large_trim();
        must(window < 10 || hf_large_count().kept == hf_pages_size(100 * KIB));
        ptr = take(100 * KIB, 0, false);
        must(ptr == first || ptr == second);
    }
    /* The program took one in each window; the other went. */
    must(hf_large_count().kept == 0 && hf_large_count().blocks == 1);
    must(give(ptr) == -1);
    for (int window = 0; window < 10; window++)
        hf_large_trim();
    must(hf_large_count().kept == 0 && hf_pages_taken() == 0);
}

/* A block that grows gets a freed one's pages, and then stays where it is as long as these last;
 * what many blocks are lent so is bounded. */
static void growing_blocks_are_lent(void *unused)
{
    enum { SMALL = 64 };
    (void)unused;
    start(REGION);
    char *freed = take(2 * MIB, 0, false), *ptr = take(512 * KIB, 0, false), *small[SMALL];
    const size_t capacity = size_of(freed);
    must(freed != NULL && ptr != NULL && give(freed) == -1);
    fill(ptr, 0, 512 * KIB, 1);
    for (size_t size = 600 * KIB; size <= capacity; size += 200 * KIB) {
        must(resize(ptr, size) == freed && wrong_with(freed) == -1);
        ptr = freed;
        check(ptr, 512 * KIB, 1);
        must(size_of(ptr) == hf_pages_size(size) && !is_held(ptr + size_of(ptr)));
    }
    must(resize(ptr, 400 * KIB) == ptr && !is_held(ptr + MIB)); /* what it had goes back */
    must(give(ptr) == -1 && give(ptr) == HF_CORRUPT_FREED);
    hf_large_empty();
    must(hf_pages_taken() == 0);
    for (size_t i = 0; i < SMALL; i++) {
        must((freed = take(MIB, 0, false)) != NULL && (ptr = take(160 * KIB, 0, false)) != NULL);
        must(give(freed) == -1 && (small[i] = resize(ptr, 200 * KIB)) != NULL);
    }
    const struct hf_large_count all = hf_large_count();
    must(hf_pages_taken() <= all.live + all.live / 2 + all.kept + 8 * MIB);
    for (size_t i = 0; i < SMALL; i++)
        must(give(small[i]) == -1);
    hf_large_empty();
    must(hf_pages_taken() == 0);
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 3000, SHARED = 32 };
static char *shared[SHARED];
static int arrived, successes;

static void wait_for_all(int round)
{
    __atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < THREADS * round)
        sched_yield();
}

/* All free the same blocks: one succeeds with each. */
static void *free_shared(void *context)
{
    for (int round = 0; round < ROUNDS / 4; round++) {
        for (int i = 0; context == NULL && i < SHARED; i++)
            must((shared[i] = take((size_t)(round + i) % 60 * KIB, 0, false)) != NULL);
        wait_for_all(3 * round + 1);
        for (int i = 0; i < SHARED; i++) {
            const int wrong = give(shared[i]);
            must(wrong == -1 || wrong == HF_CORRUPT_FREED);
            __atomic_add_fetch(&successes, wrong == -1, __ATOMIC_ACQ_REL);
        }
        wait_for_all(3 * round + 2);
        must(__atomic_load_n(&successes, __ATOMIC_ACQUIRE) == (round + 1) * SHARED);
        wait_for_all(3 * round + 3);
    }
    return NULL;
}

static void in_threads(void *(*body)(void *))
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        must(pthread_create(&threads[i], NULL, body, (void *)i) == 0);
    for (size_t i = 0; i < THREADS; i++)
        must(pthread_join(threads[i], NULL) == 0);
}

static void freed_once_by_many(void *unused)
{
    (void)unused;
    start(REGION);
    in_threads(free_shared);
    must(hf_large_count().blocks == 0);
}

/* What another thread has taken is resized and freed. */
struct head {
    size_t size;
    unsigned number;
};
static struct head *slots[16];

static void *exchange(void *context)
{
    unsigned seed = (unsigned)(uintptr_t)context;
    for (int i = 0; i < 2 * ROUNDS; i++) {
        const size_t size = any_size(&seed) / 4 + 32 * KIB;
        struct head *block = (void *)take(size, 0, false);
        must(block != NULL);
        block->size = size;
        block->number = (unsigned)rand_r(&seed);
        fill((char *)block, PAGE, size, block->number);
        const size_t slot = (size_t)rand_r(&seed) % (sizeof slots / sizeof slots[0]);
        block = __atomic_exchange_n(&slots[slot], block, __ATOMIC_ACQ_REL);
        if (block == NULL)
            continue;
        must(is_held_by((char *)block + block->size - 1, (char *)block, size_of(block)));
        if (i % 3 == 0)
            must((block = (void *)resize(block, 2 * block->size)) != NULL);
        const unsigned mark[2] = {block->number, (unsigned)(block->size / 2 / PAGE)};
        must(memcmp((char *)block + mark[1] * PAGE, mark, sizeof mark) == 0);
        must(give(block) == -1);
        if (i % 64 == 0)
            hf_large_trim();
    }
    return NULL;
}

static void blocks_cross_threads(void *unused)
{
    size_t left = 0;
    (void)unused;
    start(REGION);
    in_threads(exchange);
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++)
        left += slots[i] != NULL;
    must(hf_large_count().blocks == left);
}

/* ---- limits, fork ---- */

static void full_region(void *unused)
{
    enum { MOST = 1000 };
    static char *blocks[MOST];
    (void)unused;
    start(64 * MIB);
    for (int turn = 0; turn < 3; turn++) {
        size_t count = 0;
        while ((blocks[count] = take(MIB, 0, false)) != NULL)
            must(++count < MOST);
        must(count > 40);
        /* Nothing has happened to a block that cannot grow. */
        fill(blocks[0], 0, MIB, 7);
        must(resize(blocks[0], 32 * MIB) == NULL && wrong_with(blocks[0]) == -1);
        check(blocks[0], MIB, 7);
        while (count > 0)
            must(give(blocks[--count]) == -1);
        hf_large_empty();
        hf_pages_purge();
    }
}

static void *keep_busy(void *context)
{
    unsigned seed = 1 + (unsigned)(uintptr_t)context;
    while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) == 0) {
        char *ptr = take(any_size(&seed) / 8 + 32 * KIB, 0, false);
        must(ptr != NULL && (ptr = resize(ptr, any_size(&seed))) != NULL);
        fill(ptr, 0, size_of(ptr), 1);
        must(give(ptr) == -1);
    }
    return NULL;
}

/* A child has what its parent's other threads had, and goes on with the cache. */
static void child_goes_on(void *unused)
{
    pthread_t threads[2];
    (void)unused;
    start(REGION);
    char *kept = take(3 * MIB, 0, false);
    must(kept != NULL);
    fill(kept, 0, 3 * MIB, 5);
    for (uintptr_t i = 0; i < 2; i++)
        must(pthread_create(&threads[i], NULL, keep_busy, (void *)i) == 0);
    for (int i = 0; i < 50; i++) {
        core_before_fork();
        const pid_t child = fork();
        must(child >= 0);
        if (child == 0) {
            core_in_child();
            unsigned seed = (unsigned)i;
            must(hf_large_count().blocks >= 1 && hf_large_count().blocks <= 3);
            check(kept, 3 * MIB, 5);
            for (int j = 0; j < 30; j++) {
                char *ptr = take(any_size(&seed), 0, false);
                must(ptr != NULL && (ptr = resize(ptr, any_size(&seed))) != NULL);
                must(give(ptr) == -1);
                must(give(ptr) == HF_CORRUPT_FREED);
            }
            must(give(kept) == -1);
            hf_large_empty();
            _exit(0);
        }
        core_in_parent();
        int status;
        must(waitpid(child, &status, 0) == child && status == 0);
    }
    __atomic_store_n(&arrived, 1, __ATOMIC_RELEASE);
    for (size_t i = 0; i < 2; i++)
        must(pthread_join(threads[i], NULL) == 0);
    must(hf_large_count().blocks == 1 && give(kept) == -1);
}

CALL_TEST(pointers, told_of_any_pointer, NULL)
CALL_TEST(alignments, sizes_and_alignments, NULL)
CALL_TEST(zeroed, zeros, NULL)
CALL_TEST(resized, grows_and_shrinks, NULL)
CALL_TEST(modelled, agrees_with_a_model, NULL)
CALL_TEST(windows, unneeded_blocks_go_back, NULL)
CALL_TEST(lent, growing_blocks_are_lent, NULL)
CALL_TEST(freed_once, freed_once_by_many, NULL)
CALL_TEST(crossing, blocks_cross_threads, NULL)
CALL_TEST(full, full_region, NULL)
CALL_TEST(forked, child_goes_on, NULL)

int main(void)
{
    return RUN_SUITE(pointers, alignments, zeroed, resized, modelled, windows, lent, freed_once,
                     crossing, full, forked);
}
