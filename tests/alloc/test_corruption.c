/* Pointers into the region that are no live block end the process with SIGABRT and one line that
 * names the function, the pointer, the caller and what to do; never with a wild crash, and never
 * silently where jemalloc can see it. */
#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

/* The largest block that shares its pages with others: three and a half of the heap's pages. */
#if defined(__aarch64__)
#    define SMALL_MAX ((size_t)7 << 15)
#else
#    define SMALL_MAX ((size_t)7 << 11)
#endif

/* The calls of the child, with the block or an address derived from it. */
static void free_it(void *p)
{
    hf_free(p);
}

static void free_twice(void *p)
{
    hf_free(p);
    hf_free(p);
}

static void resize_it(void *p)
{
    must(hf_realloc(p, 5000) != NULL);
}

static void measure_it(void *p)
{
    must(hf_usable_size(p) != 0);
}

static void free_and_resize(void *p)
{
    hf_free(p);
    resize_it(p);
}

static void free_and_measure(void *p)
{
    hf_free(p);
    measure_it(p);
}

static void free_and_keep_size(void *p)
{
    size_t size = hf_usable_size(p);
    hf_free(p);
    must(hf_realloc(p, size) != NULL);
}

/* Asserts that body(p) dies, and that the line names the call, the pointer and the fact. */
static void assert_corruption(void (*body)(void *), void *p, const char *call, const char *fact)
{
    char start[64];
    snprintf(start, sizeof start, "homefree: fatal: %s(%p): ", call, p);
    assert_killed(outcome_of_call(body, p), SIGABRT, start, fact, "-fsanitize=address", "valgrind",
                  "called from ", "test_corruption+0x");
}

/* Asserts that for every call on a block that is free already. */
static void assert_freed_already(void *p, const char *fact)
{
    assert_corruption(free_twice, p, "free", fact);
    assert_corruption(free_and_resize, p, "realloc", fact);
    assert_corruption(free_and_keep_size, p, "realloc", fact);
    assert_corruption(free_and_measure, p, "malloc_usable_size", fact);
    hf_free(p);
}

#define NO_BLOCK "never allocated, or freed already"
#define INSIDE   "inside a block"
#define TWICE    "double free"
#    define LATER        TWICE /* at once */
#    define LARGE_TWICE  TWICE
#    define LARGE_INSIDE INSIDE

START_TEST(never_allocated)
{
    char *base = (char *)hf_region_range.base;
    size_t size = hf_region_range.size;
    /* The heap's first page; reserved pages half-way and at the very end. */
    char *const wild[] = {base, base + size / 2, base + size / 2 + 8, base + size - 4096,
                          base + size - 1};
    hf_free(hf_malloc(100));
    for (size_t i = 0; i < sizeof wild / sizeof wild[0]; i++) {
        assert_corruption(free_it, wild[i], "free", NO_BLOCK);
        assert_corruption(resize_it, wild[i], "realloc", NO_BLOCK);
        assert_corruption(measure_it, wild[i], "malloc_usable_size", NO_BLOCK);
    }
}
END_TEST

START_TEST(small_block_freed_twice_in_a_row)
{
    const size_t sizes[] = {0, 8, 16, 100, 1000, 4096, 14336};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        assert_freed_already(hf_malloc(sizes[i]), TWICE);
}
END_TEST

START_TEST(large_block_freed_twice)
{
    /* The thread's cache keeps blocks of the first two sizes; the others are given back at once. */
    const size_t sizes[] = {20000, 32768, 40960, 100000, MIB, 20 * MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        assert_freed_already(hf_malloc(sizes[i]), sizes[i] <= 32768 ? TWICE : LARGE_TWICE);
}
END_TEST

/* Frees blocks of a size until one has been freed for the `at`-th time, and that one again: now and
 * then the thread's cache is full, and a slower path frees. */
enum { TAKEN = 500 };
struct case_at {
    size_t at;
    char *blocks[TAKEN];
};

static void free_the_last_again(void *context)
{
    const struct case_at *many = context;
    for (size_t i = 0; i <= many->at; i++)
        hf_free(many->blocks[i]);
    hf_free(many->blocks[many->at]);
}

START_TEST(freed_twice_in_a_row_when_the_cache_is_full)
{
    static const size_t sizes[] = {4096, 16000};
    static struct case_at many;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t j = 0; j < TAKEN; j++)
            many.blocks[j] = hf_malloc(sizes[i]);
        for (many.at = 30; many.at < 73; many.at++) {
            struct outcome outcome;
            outcome_of_function(&outcome, free_the_last_again, &many);
            assert_killed(&outcome, SIGABRT, "homefree: fatal: free(", TWICE);
        }
        for (size_t j = 0; j < TAKEN; j++)
            hf_free(many.blocks[j]);
    }
}
END_TEST

static void move_and_free(void *p)
{
    hf_free(hf_malloc(100)); /* of the same class: the cache has a block that was freed last */
    must(hf_realloc(p, 5000) != p);
    hf_free(p);
}

START_TEST(block_that_moved_freed)
{
    void *p = hf_malloc(100);
    assert_corruption(move_and_free, p, "free", TWICE);
    hf_free(p);
}
END_TEST

START_TEST(inside_a_block)
{
    const size_t sizes[] = {100, 1000, 20000, MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *p = hf_malloc(sizes[i]);
        assert_corruption(resize_it, p + 16, "realloc", INSIDE);
        assert_corruption(measure_it, p + 16, "malloc_usable_size", INSIDE);
        assert_corruption(measure_it, p + 1, "malloc_usable_size", INSIDE);
        if (sizes[i] > SMALL_MAX)
            assert_corruption(free_it, p + 16, "free", INSIDE);
        hf_free(p);
    }
    /* jemalloc's page map knows the first and the last page of a large block. */
    char *p = hf_malloc(MIB);
    assert_corruption(free_it, p + MIB / 2, "free", LARGE_INSIDE);
    assert_corruption(free_it, p + hf_usable_size(p) - 8, "free", "the pointer is inside ");
    hf_free(p);
}
END_TEST

/* ---- found when a cache is emptied ---- */

struct case_later {
    size_t size;
    size_t offset;
    bool in_thread; /* the thread ends, and memory runs out; otherwise its cache overflows */
    char *blocks[3];
};

/* Frees A, B, A, or a pointer inside A. */
static void *free_wrongly(void *context)
{
    const struct case_later *later = context;
    hf_free(hf_malloc(1)); /* a thread has no cache before its first malloc */
    if (later->offset != 0) {
        hf_free(later->blocks[0] + later->offset);
    } else {
        hf_free(later->blocks[0]);
        hf_free(later->blocks[1]);
        hf_free(later->blocks[0]);
    }
    return NULL;
}

static void free_wrongly_and_empty(void *context)
{
    const struct case_later *later = context;
    if (later->in_thread) {
        pthread_t thread;
        must(pthread_create(&thread, NULL, free_wrongly, context) == 0);
        must(pthread_join(thread, NULL) == 0);
        must(hf_malloc((size_t)16 << 40) == NULL); /* empties what ended threads have left */
        return;
    }
    enum { ENOUGH = 2000 };
    static void *others[ENOUGH];
    for (size_t i = 0; i < ENOUGH; i++)
        others[i] = hf_malloc(later->size);
    free_wrongly(context);
    for (size_t i = 0; i < ENOUGH; i++)
        hf_free(others[i]);
}

static void assert_found_later(size_t size, size_t offset, bool in_thread)
{
    struct case_later later = {.size = size, .offset = offset, .in_thread = in_thread};
    struct outcome outcome;
    char start[64];
    for (size_t i = 0; i < 3; i++)
        later.blocks[i] = hf_malloc(size);
    snprintf(start, sizeof start, "homefree: fatal: free(%p): ", later.blocks[0] + offset);
    outcome_of_function(&outcome, free_wrongly_and_empty, &later);
    /* Interior pointers that the fast path refuses are found at once. */
    assert_killed(&outcome, SIGABRT, start, offset == 0 ? LATER : "inside", "-fsanitize=address",
                  "valgrind");
    for (size_t i = 0; i < 3; i++)
        hf_free(later.blocks[i]);
}

START_TEST(small_block_freed_twice_found_later)
{
    const size_t sizes[] = {8, 100, 1000, 14336};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_found_later(sizes[i], 0, true);
        assert_found_later(sizes[i], 0, false);
    }
}
END_TEST

START_TEST(large_cached_block_freed_twice_found_later)
{
    assert_found_later(20000, 0, true);
    assert_found_later(20000, 0, false);
    assert_found_later(32768, 0, true);
}
END_TEST

/* The block's whole slab is freed in between, so that the heap may give its pages back before it
 * sees the second free. It used to write into what it knew about free pages then. */
struct case_slab {
    size_t twice, between;
};
enum { IN_SLABS = 1600 };
static char *in_slabs[IN_SLABS];

static void free_twice_beyond_slab(void *context)
{
    const struct case_slab *slab = context;
    hf_free(in_slabs[slab->twice]);
    for (size_t i = 0; i < IN_SLABS; i++) {
        if (i == slab->between)
            hf_free(in_slabs[slab->twice]);
        if (i != slab->twice)
            hf_free(in_slabs[i]);
    }
}

START_TEST(small_block_freed_twice_when_its_slab_is_free)
{
    static const size_t twice[] = {0, 100, 200}; /* on several pages of a slab */
    char start[64];
    for (size_t i = 0; i < IN_SLABS; i++)
        in_slabs[i] = hf_malloc(100);
    for (size_t i = 0; i < sizeof twice / sizeof twice[0]; i++)
        for (size_t between = 300; between < 500; between += (size_t)200 / times(12)) {
            struct case_slab slab = {.twice = twice[i], .between = between};
            snprintf(start, sizeof start, "homefree: fatal: free(%p): ", in_slabs[twice[i]]);
            assert_killed(outcome_of_call(free_twice_beyond_slab, &slab), SIGABRT, start,
                          "homefree's heap");
        }
    for (size_t i = 0; i < IN_SLABS; i++)
        hf_free(in_slabs[i]);
}
END_TEST

START_TEST(inside_a_small_block)
{
    assert_found_later(100, 16, true);
    assert_found_later(100, 1, true);
    assert_found_later(1000, 8, false);
    assert_found_later(14336, 4096, true);
}
END_TEST

static void *free_given(void *p)
{
    hf_free(hf_malloc(1));
    hf_free(p);
    return NULL;
}

/* A thread frees the block and ends; the next one has its cache, and frees the block again. */
static void free_after_another_thread(void *p)
{
    pthread_t thread;
    must(pthread_create(&thread, NULL, free_given, p) == 0);
    must(pthread_join(thread, NULL) == 0);
    must(pthread_create(&thread, NULL, free_given, p) == 0);
    must(pthread_join(thread, NULL) == 0);
}

START_TEST(freed_by_two_threads)
{
    char start[64];
    void *keep = hf_malloc(100), *p = hf_malloc(100);
    snprintf(start, sizeof start, "homefree: fatal: free(%p): ", p);
    assert_killed(outcome_of_call(free_after_another_thread, p), SIGABRT, start, TWICE);
    hf_free(keep);
    hf_free(p);
}
END_TEST

static void free_watched_and_keep_size(void *p)
{
    struct hf_watch *watch;
    must(hf_watch_begin(&watch, 0) == 0);
    hf_free(p);
    must(hf_watch_end(watch) == 0);
    hf_free(hf_malloc(100)); /* the first call afterwards is a slow one, too */
    must(hf_realloc(p, 5000) != NULL);
}

/* A watch keeps frees out of the fast paths, and the block where these do not put it. */
START_TEST(resized_after_a_free_that_was_watched)
{
    void *p = hf_malloc(5000);
    assert_corruption(free_watched_and_keep_size, p, "realloc", TWICE);
    hf_free(p);
}
END_TEST

/* ---- the message ---- */

static void free_with_errno_and_closed_stdout(void *p)
{
    fclose(stdout);
    hf_free(p);
}

START_TEST(the_line_needs_nothing_but_stderr)
{
    char *wild = (char *)hf_region_range.base + hf_region_range.size / 2;
    assert_corruption(free_with_errno_and_closed_stdout, wild, "free", NO_BLOCK);
}
END_TEST

int main(void)
{
    return RUN_SUITE(
        never_allocated, small_block_freed_twice_in_a_row, large_block_freed_twice,
        freed_twice_in_a_row_when_the_cache_is_full, block_that_moved_freed, inside_a_block,
        small_block_freed_twice_found_later, large_cached_block_freed_twice_found_later,
        small_block_freed_twice_when_its_slab_is_free, inside_a_small_block, freed_by_two_threads,
        resized_after_a_free_that_was_watched, the_line_needs_nothing_but_stderr);
}
