/* Every alignment up to 2 MiB, and 1 GiB, works. The three functions report errors as their man
 * pages say, and a failed call writes nothing. */
#include "heap.h"
#include "suite.h"

#include <errno.h>
#include <homefree/homefree.h>
#include <stdint.h>
#include <string.h>

static void check_aligned(void *p, size_t alignment, size_t size)
{
    ck_assert_msg(p != NULL, "no block of %zu bytes aligned to %zu", size, alignment);
    ck_assert_uint_eq((uintptr_t)p % alignment, 0);
    ck_assert(hf_owns(p));
    ck_assert_uint_ge(hf_usable_size(p), size);
    memset(p, 0x5a, size);
}

START_TEST(every_alignment)
{
    const size_t sizes[] = {0, 1, 100, 5000, 70000};
    for (size_t alignment = 1; alignment <= (size_t)2 << 20; alignment *= 2)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            void *a = hf_aligned_alloc(alignment, sizes[i]);
            void *b = hf_memalign(alignment, sizes[i]);
            void *c = NULL;
            check_aligned(a, alignment, sizes[i]);
            check_aligned(b, alignment, sizes[i]);
            ck_assert_ptr_ne(a, b);
            if (alignment >= sizeof(void *)) {
                ck_assert_int_eq(hf_posix_memalign(&c, alignment, sizes[i]), 0);
                check_aligned(c, alignment, sizes[i]);
            }
            hf_free(a);
            hf_free_aligned_sized(b, alignment, sizes[i]);
            hf_free_sized(c, sizes[i]);
        }
}
END_TEST

START_TEST(one_gibibyte)
{
    const size_t gib = (size_t)1 << 30;
    if (stats_now().region_reserved < 8 * gib)
        return; /* no room for two of them, under a limit on address space or valgrind */
    char *a = hf_aligned_alloc(gib, 4096);
    check_aligned(a, gib, 4096);
    char *b = hf_memalign(gib, 1);
    check_aligned(b, gib, 1);
    ck_assert_ptr_ne(a, b);
    hf_free(a);
    hf_free(b);
}
END_TEST

/* glibc's memalign() rounds up, and so did its aligned_alloc() for twenty years. */
START_TEST(other_alignments_are_rounded_up)
{
    const size_t odd[] = {0, 1, 3, 24, 48, 100, 4097}, rounded[] = {1, 1, 4, 32, 64, 128, 8192};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        char *a = hf_memalign(odd[i], 100), *b = hf_aligned_alloc(odd[i], 100);
        check_aligned(a, rounded[i], 100);
        check_aligned(b, rounded[i], 100);
        hf_free(a);
        hf_free(b);
    }
}
END_TEST

START_TEST(wrong_alignments_are_refused)
{
    const size_t wrong[] = {0, 3, 24, 48, 4095, SIZE_MAX};
    void *out = &out;
    errno = 0;
    ck_assert_ptr_null(hf_aligned_alloc(SIZE_MAX, 64));
    ck_assert_int_eq(errno, EINVAL);
    errno = 0;
    ck_assert_ptr_null(hf_memalign(SIZE_MAX / 2 + 2, 64));
    ck_assert_int_eq(errno, EINVAL);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        errno = EBADF;
        ck_assert_int_eq(hf_posix_memalign(&out, wrong[i], 64), EINVAL);
        ck_assert_int_eq(errno, EBADF);
        ck_assert_ptr_eq(out, &out);
    }
    /* Powers of two that are no multiples of a pointer's size. */
    for (size_t alignment = 1; alignment < sizeof(void *); alignment *= 2)
        ck_assert_int_eq(hf_posix_memalign(&out, alignment, 64), EINVAL);
    ck_assert_ptr_eq(out, &out);
}
END_TEST

START_TEST(no_memory_is_told_from_wrong_use)
{
    void *out = &out;
    errno = EBADF;
    ck_assert_int_eq(hf_posix_memalign(&out, 64, (size_t)1 << 47), ENOMEM);
    ck_assert_int_eq(errno, EBADF);
    ck_assert_ptr_eq(out, &out);
    errno = 0;
    ck_assert_ptr_null(hf_aligned_alloc((size_t)1 << 46, (size_t)1 << 46));
    ck_assert_int_eq(errno, ENOMEM);
    errno = 0;
    ck_assert_ptr_null(hf_memalign((size_t)1 << 63, 64));
    ck_assert_int_eq(errno, ENOMEM);
}
END_TEST

START_TEST(an_aligned_block_can_be_resized)
{
    char *p = hf_aligned_alloc(4096, 4096);
    ck_assert_ptr_nonnull(p);
    memset(p, 0x11, 4096);
    p = hf_realloc(p, 100000);
    ck_assert_ptr_nonnull(p);
    for (size_t i = 0; i < 4096; i++)
        ck_assert_int_eq(p[i], 0x11);
    hf_free(p);
}
END_TEST

int main(void)
{
    return RUN_SUITE(every_alignment, one_gibibyte, other_alignments_are_rounded_up,
                     wrong_alignments_are_refused, no_memory_is_told_from_wrong_use,
                     an_aligned_block_can_be_resized);
}
