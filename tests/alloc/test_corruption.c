/* Pointers into the region that are no live block's first byte end the process at once, with
 * SIGABRT and one line that names the function, the pointer, the caller and what to do: whatever
 * was allocated and freed in between, and by which thread. */
#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

static const size_t sizes[] = {8,     100,   1000,      4096, 14336,   20000,
                               32768, 32769, 40 * 1024, MIB,  20 * MIB};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

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

#define NO_BLOCK "never allocated, or freed already"
#define INSIDE   "inside a block"
#define TWICE    "double free"

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

static void assert_freed_already(void *p)
{
    assert_corruption(free_twice, p, "free", TWICE);
    assert_corruption(free_and_resize, p, "realloc", TWICE);
    assert_corruption(free_and_keep_size, p, "realloc", TWICE);
    assert_corruption(free_and_measure, p, "malloc_usable_size", TWICE);
    hf_free(p);
}

START_TEST(used_after_a_free)
{
    for (size_t i = 0; i < SIZES; i++)
        assert_freed_already(hf_malloc(sizes[i]));
    assert_freed_already(hf_malloc(0));
    assert_freed_already(hf_memalign(4096, 100));
    assert_freed_already(hf_memalign(MIB, 100));
}
END_TEST

/* Frees blocks of a size until one has been freed for the `at`-th time, and that one again: at some
 * time the class's stack is full, and blocks go straight back into their spans. */
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

START_TEST(freed_twice_when_the_stack_is_full)
{
    static const size_t some[] = {100, 4096, 16000};
    static struct case_at many;
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        for (size_t j = 0; j < TAKEN; j++)
            many.blocks[j] = hf_malloc(some[i]);
        for (many.at = 5; many.at < 73; many.at++) {
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
    for (size_t i = 0; i < SIZES; i++) {
        char *p = hf_malloc(sizes[i]);
        const size_t offsets[] = {1, sizes[i] / 2, sizes[i] - 1, hf_usable_size(p) - 1};
        for (size_t j = 0; j < sizeof offsets / sizeof offsets[0]; j++) {
            char *q = p + offsets[j];
            assert_corruption(free_it, q, "free", INSIDE);
            assert_corruption(resize_it, q, "realloc", INSIDE);
            assert_corruption(measure_it, q, "malloc_usable_size", INSIDE);
        }
        hf_free(p);
    }
}
END_TEST

/* ---- with other calls in between, and other threads ---- */

enum { ENOUGH = 2000 }; /* more than any stack has */
struct interleaved {
    size_t size, between;
    bool first_elsewhere, second_elsewhere; /* by a thread that ends */
    char *block;
};

static void *free_block(void *block)
{
    hf_free(block);
    return NULL;
}

static void free_in(bool elsewhere, char *block)
{
    pthread_t thread;
    if (!elsewhere) {
        hf_free(block);
        return;
    }
    must(pthread_create(&thread, NULL, free_block, block) == 0);
    must(pthread_join(thread, NULL) == 0);
}

static void free_interleaved(void *context)
{
    static void *others[ENOUGH];
    const struct interleaved *free = context;
    for (size_t i = 0; i < free->between; i++)
        others[i] = hf_malloc(free->size);
    free_in(free->first_elsewhere, free->block);
    for (size_t i = 0; i < free->between; i++)
        hf_free(others[i]);
    free_in(free->second_elsewhere, free->block);
}

START_TEST(freed_twice_with_others_between)
{
    static const size_t numbers[] = {0, 1, 10, ENOUGH};
    for (size_t i = 0; i < SIZES && sizes[i] < MIB; i++)
        for (size_t j = 0; j < 4 * sizeof numbers / sizeof numbers[0]; j++) {
            struct interleaved free = {sizes[i], numbers[j / 4], j % 2 != 0, j / 2 % 2 != 0,
                                       hf_malloc(sizes[i])};
            char start[64];
            snprintf(start, sizeof start, "homefree: fatal: free(%p): ", (void *)free.block);
            const struct outcome *outcome = outcome_of_call(free_interleaved, &free);
            /* So many frees may end a phase: then its pages are gone, and what was known of it. */
            const bool gone = free.between == ENOUGH && strstr(outcome->text, NO_BLOCK) != NULL;
            assert_killed(outcome, SIGABRT, start, gone ? NO_BLOCK : TWICE, "-fsanitize=address",
                          "valgrind");
            hf_free(free.block);
        }
}
END_TEST

/* The block's whole span is freed in between, so that its pages may have gone back before the
 * second free. */
struct case_span {
    size_t twice, between;
};
enum { IN_SPANS = 1600 };
static char *in_spans[IN_SPANS];

static void free_twice_beyond_span(void *context)
{
    const struct case_span *span = context;
    hf_free(in_spans[span->twice]);
    for (size_t i = 0; i < IN_SPANS; i++) {
        if (i == span->between)
            hf_free(in_spans[span->twice]);
        if (i != span->twice)
            hf_free(in_spans[i]);
    }
}

START_TEST(freed_twice_when_its_span_is_free)
{
    static const size_t twice[] = {0, 100, 200}; /* on several pages of a span */
    char start[64];
    for (size_t i = 0; i < IN_SPANS; i++)
        in_spans[i] = hf_malloc(100);
    for (size_t i = 0; i < sizeof twice / sizeof twice[0]; i++)
        for (size_t between = 300; between < 500; between += (size_t)200 / times(12)) {
            struct case_span span = {.twice = twice[i], .between = between};
            snprintf(start, sizeof start, "homefree: fatal: free(%p): ", in_spans[twice[i]]);
            assert_killed(outcome_of_call(free_twice_beyond_span, &span), SIGABRT, start,
                          "homefree's heap");
        }
    for (size_t i = 0; i < IN_SPANS; i++)
        hf_free(in_spans[i]);
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
    return RUN_SUITE(never_allocated, used_after_a_free, freed_twice_when_the_stack_is_full,
                     block_that_moved_freed, inside_a_block, freed_twice_with_others_between,
                     freed_twice_when_its_span_is_free, resized_after_a_free_that_was_watched,
                     the_line_needs_nothing_but_stderr);
}
