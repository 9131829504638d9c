/*
 * What stands for the functions of mimalloc and jemalloc in adopted copies means the same as they
 * do where the C library's functions differ: empty sizes, small alignments, no text, and the bytes
 * between what was asked for and what can be used, which resizing takes to be zero.
 */
#include "loader/adopt/handlers.h"
#include "suite.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

enum { LG_ALIGN_16 = 4, ZERO = 0x40 }; /* jemalloc's flags */

static void is_empty_block(void *block)
{
    ck_assert_ptr_nonnull(block);
    ck_assert(hf_owns(block));
    hf_free(block);
}

START_TEST(an_empty_size_gives_a_block)
{
    is_empty_block(hf_adopted_realloc(hf_malloc(10), 0));
    is_empty_block(hf_adopted_reallocarray(hf_malloc(10), 0, 8));
    is_empty_block(hf_adopted_reallocf(hf_malloc(10), 0));
    is_empty_block(hf_adopted_new_realloc(hf_malloc(10), 0));
    is_empty_block(hf_adopted_new_reallocn(hf_malloc(10), 8, 0));
    is_empty_block(hf_adopted_rezalloc(hf_malloc(10), 0));
    is_empty_block(hf_adopted_recalloc(hf_malloc(10), 0, 5));
    is_empty_block(hf_adopted_realloc_aligned(hf_malloc(10), 0, 8));
    is_empty_block(hf_adopted_realloc_aligned(hf_malloc(10), 0, 64));
    is_empty_block(hf_adopted_heap_realloc(NULL, hf_malloc(10), 0));
    is_empty_block(hf_adopted_heap_reallocn(NULL, hf_malloc(10), 0, 3));
}
END_TEST

START_TEST(reallocarr_stores_an_empty_block)
{
    void *block = hf_malloc(10);
    ck_assert_int_eq(hf_adopted_reallocarr(&block, 0, 5), 0);
    is_empty_block(block);
    ck_assert_int_eq(hf_adopted_reallocarr(NULL, 1, 5), EINVAL);
    block = hf_malloc(10);
    ck_assert_int_eq(hf_adopted_reallocarr(&block, SIZE_MAX / 2, 5), ENOMEM);
    hf_free(block);
}
END_TEST

START_TEST(no_text_gives_no_text)
{
    ck_assert_ptr_null(hf_adopted_strdup(NULL));
    ck_assert_ptr_null(hf_adopted_strndup(NULL, 3));
    ck_assert_ptr_null(hf_adopted_wcsdup(NULL));
    ck_assert_ptr_null(hf_adopted_heap_strdup(NULL, NULL));
    ck_assert_ptr_null(hf_adopted_heap_strndup(NULL, NULL, 3));
}
END_TEST

START_TEST(small_blocks_have_the_alignment_that_was_asked_for)
{
    for (size_t size = 1; size <= 64; size++)
        for (int i = 0; i < 8; i++) {
            ck_assert_uint_eq((uintptr_t)hf_adopted_mallocx(size, LG_ALIGN_16) % 16, 0);
            ck_assert_uint_eq((uintptr_t)hf_adopted_mallocx(size, LG_ALIGN_16 | ZERO) % 16, 0);
            ck_assert_uint_eq((uintptr_t)hf_adopted_zalloc_aligned(size, 16) % 16, 0);
            ck_assert_uint_eq((uintptr_t)hf_adopted_rallocx(hf_malloc(1), size, LG_ALIGN_16) % 16,
                              0);
        }
}
END_TEST

/* Leaves a block of that size, full of ones, for the next who asks. */
static void leave_dirty(size_t size, size_t alignment)
{
    unsigned char *block = hf_adopted_malloc_aligned(size, alignment);
    memset(block, 0xff, hf_usable_size(block));
    hf_free(block);
}

static void is_zero(unsigned char *block, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (block[i] != 0)
            ck_abort_msg("byte %zu of %zu is not 0", i, size);
    hf_free(block);
}

START_TEST(zeroed_blocks_stay_zeroed_when_they_grow)
{
    for (size_t size = 1; size < 3 << 20; size += 13 + size / 20) {
        const size_t more = 2 * size + 70;
        leave_dirty(size, 8);
        is_zero(hf_adopted_rezalloc(hf_adopted_zalloc(size), more), more);
        leave_dirty(size, 8);
        is_zero(hf_adopted_recalloc(hf_adopted_calloc(size, 1), more, 1), more);
        leave_dirty(size, 8);
        is_zero(hf_adopted_rallocx(hf_adopted_mallocx(size, ZERO), more, ZERO), more);
        leave_dirty(size, 64);
        is_zero(hf_adopted_rezalloc_aligned(hf_adopted_zalloc_aligned(size, 64), more, 64), more);
    }
}
END_TEST

START_TEST(what_cannot_be_allocated_has_no_size)
{
    ck_assert_uint_eq(hf_adopted_nallocx(SIZE_MAX, 0), 0);
    ck_assert_ptr_null(hf_adopted_calloc(SIZE_MAX / 2, 4));
    ck_assert_ptr_null(hf_adopted_heap_calloc(NULL, SIZE_MAX / 2, 4));
}
END_TEST

int main(void)
{
    return RUN_SUITE(an_empty_size_gives_a_block, reallocarr_stores_an_empty_block,
                     no_text_gives_no_text, small_blocks_have_the_alignment_that_was_asked_for,
                     zeroed_blocks_stay_zeroed_when_they_grow,
                     what_cannot_be_allocated_has_no_size);
}
