/* calloc() zeroes memory that was dirty before. calloc() and reallocarray() refuse products that
 * overflow size_t. */
#include "suite.h"

#include <errno.h>
#include <homefree/homefree.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static bool all_zero(const unsigned char *p, size_t size)
{
    return size == 0 || (p[0] == 0 && memcmp(p, p + 1, size - 1) == 0);
}

START_TEST(dirty_memory_comes_back_zeroed)
{
    const size_t sizes[] = {1, 8, 48, 100, 4096, 15000, 20000, 40000, 300000, 5 << 20};
    void *blocks[64];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t count = sizes[i] < 100000 ? 64 : 4;
        for (size_t k = 0; k < count; k++) {
            blocks[k] = hf_malloc(sizes[i]);
            ck_assert_ptr_nonnull(blocks[k]);
            memset(blocks[k], 0xff, hf_usable_size(blocks[k]));
        }
        for (size_t k = 0; k < count; k++)
            hf_free(blocks[k]);
        for (size_t k = 0; k < count; k++) {
            blocks[k] = k % 2 == 0 ? hf_calloc(1, sizes[i]) : hf_calloc(sizes[i], 1);
            ck_assert_ptr_nonnull(blocks[k]);
            ck_assert_msg(all_zero(blocks[k], sizes[i]), "%zu bytes are not zero", sizes[i]);
        }
        for (size_t k = 0; k < count; k++)
            hf_free(blocks[k]);
    }
}
END_TEST

/* Pairs whose product wraps around, some to a small number. */
static const size_t overflows[][2] = {
    {SIZE_MAX, 2},
    {SIZE_MAX / 2, 3},
    {(size_t)1 << 32, (size_t)1 << 32},
    {((size_t)1 << 33) + 1, (size_t)1 << 31},
    {SIZE_MAX, SIZE_MAX},
};

START_TEST(overflow_gives_enomem)
{
    char *p = hf_strdup("kept");
    ck_assert_ptr_nonnull(p);
    for (size_t i = 0; i < sizeof overflows / sizeof overflows[0]; i++)
        for (size_t swap = 0; swap < 2; swap++) {
            size_t count = overflows[i][swap], size = overflows[i][1 - swap];
            errno = 0;
            ck_assert_ptr_null(hf_calloc(count, size));
            ck_assert_int_eq(errno, ENOMEM);
            errno = 0;
            ck_assert_ptr_null(hf_reallocarray(p, count, size));
            ck_assert_int_eq(errno, ENOMEM);
            errno = 0;
            ck_assert_ptr_null(hf_reallocarray(NULL, count, size));
            ck_assert_int_eq(errno, ENOMEM);
        }
    ck_assert_str_eq(p, "kept");
    hf_free(p);
}
END_TEST

START_TEST(reallocarray_resizes)
{
    int *p = hf_reallocarray(NULL, 10, sizeof *p);
    ck_assert_ptr_nonnull(p);
    for (int i = 0; i < 10; i++)
        p[i] = i;
    p = hf_reallocarray(p, 100000, sizeof *p);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_ge(hf_usable_size(p), 100000 * sizeof *p);
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(p[i], i);
    hf_free(p);
}
END_TEST

int main(void)
{
    return RUN_SUITE(dirty_memory_comes_back_zeroed, overflow_gives_enomem, reallocarray_resizes);
}
