/* The statistics count what was allocated. A struct of an older or newer caller is filled up to
 * its own size and no further. */
#include "heap.h"
#include "suite.h"

#include <errno.h>
#include <homefree/homefree.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define MIB ((uint64_t)1 << 20)

START_TEST(the_numbers_follow_the_heap)
{
    hf_free(hf_malloc(1)); /* before, the heap needs no memory of its own */
    struct hf_stats before = stats_now();
    ck_assert_uint_eq(before.size, sizeof before);
    ck_assert_uint_ge(before.region_reserved, 16 * MIB);
    ck_assert_uint_gt(before.region_used, 0);
    ck_assert_uint_le(before.region_used, before.region_reserved);
    ck_assert_uint_gt(before.metadata, 0);
    ck_assert_uint_gt(before.arenas, 0);
    ck_assert_uint_eq(before.forwards, 0);

    char *large = hf_malloc(8 * MIB);
    ck_assert_ptr_nonnull(large);
    memset(large, 1, 8 * MIB);
    struct hf_stats with = stats_now();
    ck_assert_uint_ge(with.allocated, before.allocated + 8 * MIB);
    ck_assert_uint_ge(with.active, before.active + 8 * MIB);
    ck_assert_uint_ge(with.region_used, 8 * MIB);
    ck_assert_uint_ge(with.resident, with.active);
    ck_assert_uint_le(with.allocated, with.active);

    hf_free(large);
    struct hf_stats after = stats_now();
    ck_assert_uint_lt(after.allocated, before.allocated + MIB);
}
END_TEST

static void *allocate_and_free(void *unused)
{
    void *blocks[100];
    (void)unused;
    for (size_t size = 8; size <= 32768; size *= 2) {
        for (size_t i = 0; i < 100; i++)
            blocks[i] = hf_malloc(size);
        for (size_t i = 0; i < 100; i++)
            hf_free(blocks[i]);
    }
    return NULL;
}

/* Blocks that a thread has freed are in its cache, which outlives the thread. */
START_TEST(blocks_in_caches_are_not_allocated)
{
    void *blocks[100];
    const uint64_t before = stats_now().allocated;
    for (size_t i = 0; i < 100; i++)
        blocks[i] = hf_malloc(100);
    ck_assert_uint_eq(stats_now().allocated, before + 100 * hf_usable_size(blocks[0]));
    for (size_t i = 0; i < 100; i++)
        hf_free(blocks[i]);
    ck_assert_uint_eq(stats_now().allocated, before);
    allocate_and_free(NULL);
    ck_assert_uint_eq(stats_now().allocated, before);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, allocate_and_free, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(stats_now().allocated, before);
}
END_TEST

START_TEST(older_callers_have_smaller_structs)
{
    const size_t ends[] = {offsetof(struct hf_stats, region_used),
                           offsetof(struct hf_stats, allocated), offsetof(struct hf_stats, arenas),
                           offsetof(struct hf_stats, forwards),
                           offsetof(struct hf_stats, allocated) + 3};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        unsigned char bytes[sizeof(struct hf_stats)];
        memset(bytes, 0xaa, sizeof bytes);
        memcpy(bytes, &ends[i], sizeof ends[i]);
        ck_assert_int_eq(hf_stats((struct hf_stats *)(void *)bytes), 0);
        ck_assert_mem_eq(bytes, &ends[i], sizeof ends[i]);
        uint64_t reserved;
        memcpy(&reserved, bytes + offsetof(struct hf_stats, region_reserved), sizeof reserved);
        ck_assert_uint_eq(reserved, stats_now().region_reserved);
        for (size_t at = ends[i]; at < sizeof bytes; at++)
            ck_assert_uint_eq(bytes[at], 0xaa);
    }
}
END_TEST

START_TEST(newer_callers_have_larger_structs)
{
    struct {
        struct hf_stats known;
        unsigned char unknown[64];
    } stats;
    memset(&stats, 0xaa, sizeof stats);
    stats.known.size = sizeof stats;
    ck_assert_int_eq(hf_stats(&stats.known), 0);
    ck_assert_uint_eq(stats.known.size, sizeof stats);
    ck_assert_uint_eq(stats.known.forwards, 0);
    for (size_t at = 0; at < sizeof stats.unknown; at++)
        ck_assert_uint_eq(stats.unknown[at], 0xaa);
}
END_TEST

START_TEST(too_small_is_an_error)
{
    struct hf_stats stats;
    memset(&stats, 0xaa, sizeof stats);
    struct hf_stats poison = stats;
    ck_assert_int_eq(hf_stats(NULL), -EINVAL);
    for (size_t size = 0; size <= sizeof(size_t); size++) {
        stats.size = poison.size = size;
        ck_assert_int_eq(hf_stats(&stats), -EINVAL);
        ck_assert_mem_eq(&stats, &poison, sizeof stats);
    }
}
END_TEST

START_TEST(the_version_is_the_headers)
{
    ck_assert_str_eq(hf_version(), HF_VERSION);
}
END_TEST

static bool stop;

static void *grow_and_shrink(void *unused)
{
    enum { COUNT = 600, SIZE = 30000 };
    void *blocks[COUNT];
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        for (size_t i = 0; i < COUNT; i++)
            blocks[i] = hf_malloc(SIZE);
        for (size_t i = 0; i < COUNT; i++)
            hf_free(blocks[i]);
        (void)hf_trim(NULL, NULL);
    }
    return unused;
}

/* Its parts are counted one after another. */
START_TEST(what_is_resident_is_never_negative)
{
    enum { SECONDS = 3 };
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, grow_and_shrink, NULL), 0);
    for (const time_t began = time(NULL); time(NULL) < began + SECONDS;)
        ck_assert_uint_lt(stats_now().resident, UINT64_MAX / 2);
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
}
END_TEST

int main(void)
{
    return RUN_SUITE(the_numbers_follow_the_heap, blocks_in_caches_are_not_allocated,
                     older_callers_have_smaller_structs, newer_callers_have_larger_structs,
                     too_small_is_an_error, the_version_is_the_headers,
                     what_is_resident_is_never_negative);
}
