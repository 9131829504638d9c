/* A second and a third instance of libhomefree under other names (a wheel brought them) forward to
 * the first: one region, and any copy frees what any other allocated, whichever was loaded first.
 *
 *   test_copies_share FIRST SECOND THIRD */
#include "copies.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const char *paths[3];

static void three(void *unused)
{
    (void)unused;
    struct copy first = copy_open(paths[0]);
    void *early = first.malloc(100);
    struct copy third = copy_open(paths[2]), second = copy_open(paths[1]);
    must_be_one_heap(&first, &second);
    must_be_one_heap(&first, &third);
    must_share(&second, &third);
    must_share(&third, &second);
    third.free(early);
}

START_TEST(one_heap_in_any_order)
{
    assert_one_heap_in_either_order((struct opening){copy_open, &paths[0]},
                                    (struct opening){copy_open, &paths[1]});
    must_succeed(three);
}
END_TEST

static void foreign_pointers(void *unused)
{
    (void)unused;
    struct copy first = copy_open(paths[0]), second = copy_open(paths[1]);
    char *p = second.realloc(strdup("libc's"), 10000);
    must(p != NULL && !first.owns(p) && !second.owns(p) && strcmp(p, "libc's") == 0);
    second.free(p);
    first.free(strdup("libc's"));
    second.free(NULL);
    must(second.usable_size(NULL) == 0);
}

CALL_TEST(libcs_pointers_go_home_through_each, foreign_pointers, NULL)

/* The heap takes addresses as it needs them: until then others may have something there. */
static void neighbours(void *unused)
{
    (void)unused;
    const size_t size = 100 << 20;
    struct copy first = copy_open(paths[0]), second = copy_open(paths[1]);
    char *block = first.malloc(100);
    must(block != NULL && second.owns(block));
    char *beyond = mmap((char *)((uintptr_t)block & -(uintptr_t)4096) + ((size_t)1 << 40), 4096,
                        PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(beyond != MAP_FAILED && !first.owns(beyond) && !second.owns(beyond));
    char *large = first.malloc(size);
    must(large != NULL && second.owns(large) && second.owns(large + size - 1));
    second.free(large);
    second.free(block);
}

CALL_TEST(what_lies_beyond_the_region_is_nobodys, neighbours, NULL)

/* Some threads use only the forwarding copy, others both copies. */
static struct copy one, two;

static void *use_both(void *context)
{
    unsigned seed = (unsigned)(size_t)context;
    bool only_two = seed % 2 == 0;
    void *blocks[200] = {NULL};
    for (int i = 0; i < 5000; i++) {
        size_t at = (size_t)rand_r(&seed) % 200;
        const struct copy *from = only_two || rand_r(&seed) % 2 == 0 ? &two : &one;
        const struct copy *to = only_two || rand_r(&seed) % 2 == 0 ? &two : &one;
        to->free(blocks[at]);
        blocks[at] = from->malloc((size_t)rand_r(&seed) % 3000);
        must(blocks[at] != NULL && one.owns(blocks[at]));
    }
    for (size_t i = 0; i < 200; i++)
        two.free(blocks[i]);
    return NULL;
}

static void run_threads(void)
{
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        must(pthread_create(&threads[i], NULL, use_both, (char *)1 + i) == 0);
    for (size_t i = 0; i < 4; i++)
        must(pthread_join(threads[i], NULL) == 0);
}

static void many_threads(void *unused)
{
    (void)unused;
    one = copy_open(paths[0]);
    two = copy_open(paths[1]);
    run_threads();
    uint64_t before = copy_stats(&one).allocated;
    for (int i = 0; i < 5; i++)
        run_threads();
    must(copy_stats(&one).allocated < before + (256 << 10));
}

CALL_TEST(threads_use_either, many_threads, NULL)

/* A watch that was begun through any copy records the calls through all. */
static void watch_through_both(void *unused)
{
    (void)unused;
    struct copy first = copy_open(paths[0]), second = copy_open(paths[1]);
    const struct copy *copies[] = {&first, &second};
    for (size_t i = 0; i < 2; i++) {
        struct hf_watch *watch = NULL;
        struct hf_watch_report report = {.size = sizeof report};
        must(copies[i]->watch_begin(&watch, 0) == 0);
        first.free(second.malloc(100));
        second.free(first.malloc(100));
        second.free(second.strdup("text"));
        must(copies[1 - i]->watch_report(watch, &report, NULL, NULL) == 0);
        must(report.allocations == 3 && report.frees == 3);
        copies[1 - i]->watch_drop(watch);
    }
}

CALL_TEST(a_watch_sees_all_copies, watch_through_both, NULL)

/* Calls that are counted through any copy are counted once, whichever copy they are made through.
 */
static void fail_through_both(void *unused)
{
    (void)unused;
    struct copy first = copy_open(paths[0]), second = copy_open(paths[1]);
    const struct copy *copies[] = {&first, &second};
    for (size_t i = 0; i < 2; i++) {
        struct hf_fail_counts counts = {.size = sizeof counts};
        must(copies[i]->fail_at(3, 0) == 0);
        void *one_block = first.malloc(100), *other = second.memalign(64, 1000);
        must(one_block != NULL && other != NULL);
        must(copies[i]->realloc(one_block, 100000) == NULL);
        must(copies[1 - i]->fail_count(0, &counts) == 0 && counts.calls == 3);
        must(copies[1 - i]->fail_end(0, &counts) == 0 && counts.failed == 1);
        first.free(one_block);
        first.free(other);
    }
}

CALL_TEST(calls_fail_through_all_copies, fail_through_both, NULL)

static void see_other(const struct hf_other_stats *stats, void *context)
{
    (void)stats;
    (void)context;
}

static void others_through_both(void *unused)
{
    (void)unused;
    struct copy first = copy_open(paths[0]), second = copy_open(paths[1]);
    must(first.stats_of_others(see_other, NULL) == 0);
    must(second.stats_of_others(see_other, NULL) == 0);
}

CALL_TEST(any_copy_asks_other_allocators, others_through_both, NULL)

static void own_heaps(void *unused)
{
    (void)unused;
    struct copy first = copy_open(paths[0]), second = copy_open(paths[1]);
    const struct copy *copies[] = {&first, &second};
    for (size_t i = 0; i < 2; i++) {
        struct hf_heap *heap;
        must(copies[i]->heap_new(&heap) == 0);
        void *block = copies[1 - i]->heap_malloc(heap, 100);
        must(block != NULL && second.owns(block));
        copies[i]->free(block);
        must(copies[1 - i]->heap_malloc(heap, 1000) != NULL);
        must(copies[1 - i]->heap_drop(heap) == 0);
    }
}

CALL_TEST(heaps_of_ones_own_are_made_through_each, own_heaps, NULL)

static void count_homefree(const struct hf_trimmed *trimmed, void *seen)
{
    *(int *)seen += strcmp(trimmed->allocator, "homefree") == 0;
}

static void trim_through_both(void *unused)
{
    (void)unused;
    struct copy first = copy_open(paths[0]), second = copy_open(paths[1]);
    int seen = 0;
    must(first.trim(count_homefree, &seen) == 0 && seen == 1);
    must(second.trim(count_homefree, &seen) == 0 && seen == 2);
}

CALL_TEST(one_heap_is_trimmed_through_each, trim_through_both, NULL)

/* The heap finds errors and reports them as it does with one copy. */
static void free_twice_over(void *unused)
{
    (void)unused;
    struct copy first = copy_open(paths[0]), second = copy_open(paths[1]);
    void *p = second.malloc(100);
    first.free(p);
    second.free(p);
}

START_TEST(a_double_free_across_copies_is_found)
{
    assert_killed(outcome_of_call(free_twice_over, NULL), SIGABRT, "homefree: fatal: free(0x",
                  "double free");
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&paths[0], &paths[1], &paths[2]);
    return RUN_SUITE(one_heap_in_any_order, libcs_pointers_go_home_through_each,
                     what_lies_beyond_the_region_is_nobodys, threads_use_either,
                     a_watch_sees_all_copies, any_copy_asks_other_allocators,
                     calls_fail_through_all_copies, heaps_of_ones_own_are_made_through_each,
                     one_heap_is_trimmed_through_each, a_double_free_across_copies_is_found);
}
