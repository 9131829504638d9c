/* realloc() preserves the block's content when it grows and when it shrinks; NULL and size 0
 * mean what they mean in glibc. */
#include "heap.h"
#include "suite.h"

#include <errno.h>
#include <homefree/homefree.h>
#include <string.h>

static unsigned char expected(size_t at)
{
    return (unsigned char)(at * 7 + at / 256);
}

static void check_content(const unsigned char *p, size_t size)
{
    for (size_t at = 0; at < size; at++)
        if (p[at] != expected(at))
            ck_abort_msg("byte %zu was lost", at);
}

START_TEST(content_is_kept_in_every_direction)
{
    const size_t sizes[] = {1, 16, 100, 1000, 14336, 14337, 20000, 32768, 32769, 100000, 3 << 20};
    const size_t count = sizeof sizes / sizeof sizes[0];
    for (size_t from = 0; from < count; from++)
        for (size_t to = 0; to < count; to++) {
            unsigned char *p = hf_malloc(sizes[from]);
            ck_assert_ptr_nonnull(p);
            for (size_t at = 0; at < sizes[from]; at++)
                p[at] = expected(at);
            p = hf_realloc(p, sizes[to]);
            ck_assert_ptr_nonnull(p);
            ck_assert(hf_owns(p));
            ck_assert_uint_ge(hf_usable_size(p), sizes[to]);
            check_content(p, sizes[from] < sizes[to] ? sizes[from] : sizes[to]);
            hf_free(p);
        }
}
END_TEST

START_TEST(a_block_grows_byte_by_byte)
{
    unsigned char *p = NULL;
    for (size_t size = 1; size <= 5000; size++) {
        p = hf_realloc(p, size);
        ck_assert_ptr_nonnull(p);
        p[size - 1] = expected(size - 1);
    }
    check_content(p, 5000);
    hf_free(p);
}
END_TEST

START_TEST(null_allocates_and_zero_frees)
{
    char *p = hf_realloc(NULL, 3 << 20);
    ck_assert_ptr_nonnull(p);
    ck_assert(hf_owns(p));
    errno = 0;
    ck_assert_ptr_null(hf_realloc(p, 0));
    ck_assert_int_eq(errno, 0);
    struct hf_owner owner = {.size = sizeof owner};
    ck_assert_int_eq(hf_owner_of(p, &owner), 0);
    ck_assert_ptr_null(owner.block);
    uint64_t before = stats_now().allocated;
    for (int i = 0; i < 1000; i++)
        ck_assert_ptr_null(hf_realloc(hf_malloc(5000), 0));
    ck_assert_uint_le(stats_now().allocated, before + 1000 * 5000 / 2);
}
END_TEST

START_TEST(a_failure_keeps_the_block)
{
    char *small = hf_strdup("still here"), *large = hf_malloc(1 << 20);
    ck_assert_ptr_nonnull(small);
    ck_assert_ptr_nonnull(large);
    strcpy(large, "still there");
    errno = 0;
    ck_assert_ptr_null(hf_realloc(small, (size_t)1 << 47));
    ck_assert_int_eq(errno, ENOMEM);
    errno = 0;
    ck_assert_ptr_null(hf_realloc(large, (size_t)1 << 47));
    ck_assert_int_eq(errno, ENOMEM);
    ck_assert_str_eq(small, "still here");
    ck_assert_str_eq(large, "still there");
    hf_free(small);
    hf_free(large);
}
END_TEST

int main(void)
{
    return RUN_SUITE(content_is_kept_in_every_direction, a_block_grows_byte_by_byte,
                     null_allocates_and_zero_frees, a_failure_keeps_the_block);
}
