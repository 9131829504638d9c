/*
 * Watches see the blocks of spaces come and go, whoever frees them, with who did it.
 */
#include "api.h"
#include "suite.h"

#include <homefree/homefree.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void *block_of(enum hf_space_kind kind, size_t size)
{
    void *at = NULL;
    ck_assert_int_eq(hf_space_alloc(&at, kind, 0, size, 0, NULL), 0);
    return at;
}

static const size_t sizes[] = {100, 20000, 3000000};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static struct hf_watch *begin(void)
{
    struct hf_watch *watch;
    for (int i = 0; i < SIZES; i++) { /* so that the caches have blocks */
        hf_space_free(block_of(HF_SPACE_PINNED, sizes[i]), HF_STREAM_DONE);
        hf_space_free(block_of(HF_SPACE_DEVICE, sizes[i]), NULL);
    }
    ck_assert_int_eq(hf_watch_begin(&watch, 0), 0);
    return watch;
}

static struct hf_watch_block at(struct hf_watch *watch, const void *block)
{
    struct hf_watch_block out = {.size = sizeof out};
    ck_assert_int_eq(hf_watch_at(watch, block, &out), 0);
    return out;
}

struct left {
    uint64_t count, bytes;
};

static void add_left(const struct hf_left *left, void *context)
{
    struct left *sum = context;
    if (strstr(left->allocated_by, "test_space_watched") == NULL)
        return;
    sum->count += left->count;
    sum->bytes += left->bytes;
}

static struct left left(struct hf_watch *watch)
{
    struct left sum = {0, 0};
    ck_assert_int_eq(hf_watch_left(watch, add_left, &sum), 0);
    return sum;
}

static void by_space_free(void *ptr)
{
    ck_assert_int_eq(hf_space_free(ptr, NULL), 0);
}

static void by_space_free_done(void *ptr)
{
    ck_assert_int_eq(hf_space_free(ptr, HF_STREAM_DONE), 0);
}

static void by_cuda_free(void *ptr)
{
    ck_assert_int_eq(cudaFree(ptr), 0);
}

static void by_cuda_free_async(void *ptr)
{
    ck_assert_int_eq(cudaFreeAsync(ptr, NULL), 0);
}

static void crossed(const struct hf_crossing *crossing, void *context)
{
    ck_abort_msg("%s to %s", crossing->allocated_by, crossing->freed_by);
    (void)context;
}

START_TEST(blocks_come_and_go)
{
    void (*const frees[])(void *) = {by_space_free, by_space_free_done, free,
                                     hf_free,       by_cuda_free,       by_cuda_free_async};
    struct hf_watch *watch = begin();
    for (enum hf_space_kind kind = HF_SPACE_PINNED; kind <= HF_SPACE_DEVICE; kind++)
        for (int i = 0; i < SIZES; i++)
            for (size_t j = 0; j < sizeof frees / sizeof frees[0]; j++) {
                void *block = block_of(kind, sizes[i]);
                const uint32_t before = at(watch, block).freed;
                ck_assert_uint_eq(at(watch, block).allocated, before + 1);
                ck_assert_ptr_nonnull(strstr(at(watch, block).allocated_by, "test_space_watched"));
                ck_assert_uint_eq(left(watch).count, 1);
                ck_assert_uint_eq(left(watch).bytes, sizes[i]);
                uintptr_t address = (uintptr_t)block;
                __asm__("" : "+r"(address));
                frees[j](block);
                const struct hf_watch_block after = at(watch, (void *)address);
                ck_assert_msg(after.freed == before + 1, "size %zu, free %zu", sizes[i], j);
                ck_assert_uint_eq(after.freed_unmatched, 0);
                ck_assert_msg(strstr(after.freed_by, "test_space_watched") != NULL,
                              "size %zu, free %zu: %s", sizes[i], j, after.freed_by);
                ck_assert_uint_eq(left(watch).count, 0);
            }
    struct hf_watch_report report = {.size = sizeof report};
    ck_assert_int_eq(hf_watch_report(watch, &report, crossed, NULL), 0);
    ck_assert_uint_eq(report.foreign, 0);
    hf_watch_drop(watch);
}
END_TEST

START_TEST(resized_blocks_stay_known)
{
    struct hf_watch *watch = begin();
    char *block = block_of(HF_SPACE_PINNED, 100000);
    block = realloc(block, 50000);
    ck_assert_uint_eq(left(watch).bytes, 50000);
    block = realloc(block, 3000000);
    ck_assert_uint_eq(left(watch).count, 1);
    ck_assert_uint_eq(left(watch).bytes, 3000000);
    free(block);
    ck_assert_uint_eq(left(watch).count, 0);
    hf_watch_drop(watch);
}
END_TEST

START_TEST(what_is_no_block_is_no_free)
{
    struct hf_watch *watch = begin();
    char *block = block_of(HF_SPACE_PINNED, 100000);
    ck_assert_int_eq(hf_space_free(block + 4096, HF_STREAM_DONE), -EINVAL);
    ck_assert_uint_eq(at(watch, block + 4096).freed, 0);
    ck_assert_uint_eq(left(watch).count, 1);
    hf_space_free(block, HF_STREAM_DONE);
    ck_assert_int_eq(hf_watch_end(watch), 0);
    hf_space_free(block_of(HF_SPACE_PINNED, 100), HF_STREAM_DONE);
    ck_assert_uint_eq(left(watch).count, 0);
    hf_watch_drop(watch);
}
END_TEST

/* The heap is a space, too, and who calls is seen through hf_space_alloc(). */
START_TEST(blocks_of_the_heap_count_for_the_caller)
{
    struct hf_watch *watch = begin();
    void *block = block_of(HF_SPACE_HOST, 100);
    ck_assert_uint_eq(left(watch).count, 1);
    uintptr_t address = (uintptr_t)block;
    ck_assert_int_eq(hf_space_free(block, NULL), 0);
    ck_assert_uint_eq(left(watch).count, 0);
    ck_assert_ptr_nonnull(strstr(at(watch, (void *)address).freed_by, "test_space_watched"));
    hf_watch_drop(watch);
}
END_TEST

int main(void)
{
    return RUN_SUITE(blocks_come_and_go, resized_blocks_stay_known, what_is_no_block_is_no_free,
                     blocks_of_the_heap_count_for_the_caller);
}
