/*
 * hf_trim() gives back page-locked memory that nobody uses, unless a device may still use it, and
 * leaves devices' memory alone, for which it would have to wait.
 */
#include "api.h"
#include "control.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <string.h>

enum { SIZE = 8 << 20 };

static struct hf_space_stats stats_of(enum hf_space_kind kind)
{
    struct hf_space_stats stats = {.size = sizeof stats};
    ck_assert_int_eq(hf_space_stats(kind, 0, HF_STREAM_ANY, &stats), 0);
    return stats;
}

static void count(const struct hf_trimmed *trimmed, void *context)
{
    if (strcmp(trimmed->allocator, "cuda") == 0) {
        ck_assert_str_eq(trimmed->how, "hf_space_trim");
        ++*(unsigned *)context;
    }
}

static unsigned rows(void)
{
    unsigned found = 0;
    ck_assert_int_eq(hf_trim(count, &found), 0);
    return found;
}

START_TEST(what_is_unused_goes)
{
    void *pinned = NULL, *device = NULL;
    ck_assert_uint_eq(rows(), 0); /* there is no pool yet */
    ck_assert_int_eq(hf_space_alloc(&pinned, HF_SPACE_PINNED, 0, SIZE, 0, NULL), 0);
    ck_assert_int_eq(hf_space_alloc(&device, HF_SPACE_DEVICE, 0, SIZE, 0, NULL), 0);
    ck_assert_int_eq(hf_space_free(pinned, HF_STREAM_DONE), 0);
    ck_assert_int_eq(hf_space_free(device, NULL), 0);
    const uint64_t devices = stats_of(HF_SPACE_DEVICE).reserved;
    ck_assert_uint_ge(stats_of(HF_SPACE_PINNED).reserved, SIZE);
    ck_assert_uint_eq(rows(), 1);
    ck_assert_uint_eq(stats_of(HF_SPACE_PINNED).reserved, 0);
    ck_assert_uint_eq(stats_of(HF_SPACE_DEVICE).reserved, devices);
    ck_assert_uint_eq(rows(), 0);
}
END_TEST

START_TEST(what_a_device_may_use_is_not_waited_for)
{
    void *pinned = NULL;
    cudaStream_t stream;
    ck_assert_int_eq(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), 0);
    ck_assert_int_eq(hf_space_alloc(&pinned, HF_SPACE_PINNED, 0, SIZE, 0, stream), 0);
    ck_assert_int_eq(cudaMemsetAsync(pinned, 1, SIZE, stream), 0);
    ck_assert_int_eq(hf_space_free(pinned, stream), 0);
    ck_assert_uint_gt(stats_of(HF_SPACE_PINNED).pending, 0);
    ck_assert_uint_eq(rows(), 0);
    ck_assert_uint_gt(stats_of(HF_SPACE_PINNED).pending, 0);
}
END_TEST

int main(void)
{
    return RUN_SUITE(what_is_unused_goes, what_a_device_may_use_is_not_waited_for);
}
