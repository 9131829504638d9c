/*
 * Where large blocks of a device's memory go: to memory that is there, and units move to where they
 * are needed seldom enough, because a device is waited for then.
 */
#include "control.h"
#include "suite.h"

#include <homefree/homefree.h>

#define MIB ((size_t)1 << 20)

static void *take(size_t size)
{
    void *at = NULL;
    ck_assert_int_eq(hf_space_alloc(&at, HF_SPACE_DEVICE, 0, size, 0, NULL), 0);
    return at;
}

static void give(void *at)
{
    ck_assert_int_eq(hf_space_free(at, NULL), 0);
}

static uint64_t reserved(void)
{
    struct hf_space_stats stats = {.size = sizeof stats};
    ck_assert_int_eq(hf_space_stats(HF_SPACE_DEVICE, 0, HF_STREAM_ANY, &stats), 0);
    return stats.reserved;
}

static unsigned long waits(void)
{
    return double_calls("cudaDeviceSynchronize");
}

START_TEST(what_has_memory_is_taken_first)
{
    void *small = take(6 * MIB), *between = take(2 * MIB), *large = take(10 * MIB),
         *behind = take(2 * MIB);
    give(small);
    ck_assert_int_eq(hf_space_trim(HF_SPACE_DEVICE, 0, 0, NULL), 0);
    give(large);
    /* It would fit best where nothing is mapped any more. */
    unsigned long mapped = double_calls("cuMemMap");
    void *at = take(6 * MIB);
    ck_assert_ptr_eq(at, large);
    ck_assert_uint_eq(double_calls("cuMemMap"), mapped);
    give(at);
    give(between);
    give(behind);
}
END_TEST

START_TEST(one_wait_is_for_many_blocks)
{
    enum { SMALL = 200, LARGE = 24 };
    void *small[SMALL], *large[LARGE];
    for (int i = 0; i < SMALL; i++)
        small[i] = take(3 * MIB);
    uint64_t most = reserved();
    for (int i = 0; i < SMALL; i += 2)
        give(small[i]);
    unsigned long before = waits();
    for (int i = 0; i < LARGE; i++)
        large[i] = take(8 * MIB);
    ck_assert_uint_le(waits() - before, LARGE / 4);
    ck_assert_uint_gt(waits() - before, 0);
    ck_assert_uint_le(reserved(), most + most / 8);
    for (int i = 1; i < SMALL; i += 2)
        give(small[i]);
    for (int i = 0; i < LARGE; i++)
        give(large[i]);
}
END_TEST

int main(void)
{
    return RUN_SUITE(what_has_memory_is_taken_first, one_wait_is_for_many_blocks);
}
