/* The hf_* functions accept libc's pointers, return each to libc, and never move one into the
 * heap. */
#include "suite.h"

#include <errno.h>
#include <homefree/homefree.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

START_TEST(libcs_blocks_are_freed)
{
    char *line = NULL;
    hf_free(malloc(10));
    hf_free(calloc(3, 1 << 20));
    hf_free(strdup("libc's"));
    ck_assert_int_gt(asprintf(&line, "%d", 42), 0);
    ck_assert(!hf_owns(line));
    hf_free(line);
    hf_free_sized(malloc(10), 10);
    hf_free_aligned_sized(aligned_alloc(64, 128), 64, 128);
}
END_TEST

START_TEST(libc_gets_its_memory_back)
{
    /* A leak would be 4 GiB. */
    for (int i = 0; i < 4096; i++) {
        char *p = malloc(1 << 20);
        ck_assert_ptr_nonnull(p);
        ck_assert(!hf_owns(p));
        p[0] = p[(1 << 20) - 1] = 1;
        hf_free(p);
    }
#if __GLIBC_PREREQ(2, 33) && !defined(__SANITIZE_ADDRESS__) /* mallinfo2() */
    ck_assert_uint_lt(mallinfo2().uordblks + mallinfo2().hblkhd, (size_t)256 << 20);
#endif
}
END_TEST

START_TEST(foreign_stays_foreign)
{
    char *p = malloc(10);
    ck_assert_ptr_nonnull(p);
    strcpy(p, "123456789");
    const size_t sizes[] = {100, 100000, 3 << 20, 50, 10};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        p = i % 2 == 0 ? hf_realloc(p, sizes[i]) : hf_reallocarray(p, sizes[i], 1);
        ck_assert_ptr_nonnull(p);
        ck_assert(!hf_owns(p));
        ck_assert_str_eq(p, "123456789");
        ck_assert_uint_ge(hf_usable_size(p), sizes[i]);
        ck_assert_uint_eq(hf_usable_size(p), malloc_usable_size(p));
    }
    ck_assert_ptr_null(hf_realloc(p, 0)); /* frees the block, as libc's realloc() does */
}
END_TEST

START_TEST(a_foreign_failure_keeps_the_block)
{
#ifndef __SANITIZE_ADDRESS__ /* the sanitizer's allocator ends the process instead */
    char *p = strdup("kept");
    errno = 0;
    ck_assert_ptr_null(hf_realloc(p, (size_t)1 << 60));
    ck_assert_int_eq(errno, ENOMEM);
    errno = 0;
    ck_assert_ptr_null(hf_reallocarray(p, (size_t)1 << 33, (size_t)1 << 33));
    ck_assert_int_eq(errno, ENOMEM);
    ck_assert_str_eq(p, "kept");
    hf_free(p);
#endif
}
END_TEST

START_TEST(nothing_has_no_size)
{
    ck_assert_uint_eq(hf_usable_size(NULL), 0);
    hf_free(NULL);
}
END_TEST

int main(void)
{
    return RUN_SUITE(libcs_blocks_are_freed, libc_gets_its_memory_back, foreign_stays_foreign,
                     a_foreign_failure_keeps_the_block, nothing_has_no_size);
}
