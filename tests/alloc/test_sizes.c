/* Every size gives a block of its own: size 0, each small size, every size class and its
 * foreign allocators, and sizes that no machine has. */
#include "suite.h"

#include <errno.h>
#include <homefree/homefree.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

START_TEST(size_zero_gives_distinct_pointers)
{
    void *blocks[100];
    for (size_t i = 0; i < 100; i++) {
        void *const kinds[] = {hf_malloc(0), hf_calloc(0, 8), hf_calloc(8, 0),
                               hf_aligned_alloc(64, 0), hf_realloc(NULL, 0)};
        blocks[i] = kinds[i % 5];
        for (size_t k = 0; k < 5; k++) {
            ck_assert_ptr_nonnull(kinds[k]);
            ck_assert(hf_owns(kinds[k]));
            if (k != i % 5)
                hf_free(kinds[k]);
        }
        for (size_t j = 0; j < i; j++)
            ck_assert_ptr_ne(blocks[i], blocks[j]);
    }
    for (size_t i = 0; i < 100; i++)
        hf_free(blocks[i]);
}
END_TEST

static void check_size(size_t size)
{
    unsigned char *p = hf_malloc(size);
    ck_assert_msg(p != NULL, "no block of %zu bytes", size);
    ck_assert(hf_owns(p));
    size_t usable = hf_usable_size(p);
    ck_assert_uint_ge(usable, size);
    ck_assert_uint_eq((uintptr_t)p % (size <= 8 ? 8 : 16), 0);
    ck_assert(hf_owns(p + usable - 1));
    if (usable <= 1 << 20) {
        memset(p, 0xa5, usable);
    } else {
        p[0] = p[usable / 2] = p[usable - 1] = 0xa5;
    }
    hf_free(p);
}

START_TEST(every_size_has_a_block)
{
    for (size_t size = 0; size <= 4096; size++)
        check_size(size);
    /* Each doubling has four size classes. */
    for (size_t power = 4096; power <= (size_t)128 << 20; power *= 2)
        for (size_t step = 4; step < 8; step++) {
            size_t size = power / 4 * step;
            check_size(size - 1);
            check_size(size);
            check_size(size + 1);
        }
}
END_TEST

#define BLOCKS 2000

START_TEST(blocks_do_not_overlap)
{
    static struct {
        unsigned char *p;
        size_t size;
    } blocks[BLOCKS];
    unsigned seed = 20240229;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            if (blocks[i].p != NULL)
                continue;
            blocks[i].size = (size_t)rand_r(&seed) % (i % 50 == 0 ? 100000 : 1000);
            blocks[i].p = hf_malloc(blocks[i].size);
            ck_assert_ptr_nonnull(blocks[i].p);
            memset(blocks[i].p, (int)(i % 251), hf_usable_size(blocks[i].p));
        }
        for (size_t i = 0; i < BLOCKS; i++) {
            for (size_t at = 0; at < blocks[i].size; at++)
                if (blocks[i].p[at] != i % 251)
                    ck_abort_msg("block %zu was written by another", i);
            if (i % 2 == (size_t)round % 2 || round == 2) {
                hf_free(blocks[i].p);
                blocks[i].p = NULL;
            }
        }
    }
}
END_TEST

START_TEST(impossible_sizes_give_enomem)
{
    const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 4096, SIZE_MAX / 2 + 1, (size_t)PTRDIFF_MAX,
                            (size_t)1 << 47};
    void *p = hf_malloc(100);
    ck_assert_ptr_nonnull(p);
    memset(p, 7, 100);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        errno = 0;
        ck_assert_ptr_null(hf_malloc(sizes[i]));
        ck_assert_int_eq(errno, ENOMEM);
        errno = 0;
        ck_assert_ptr_null(hf_calloc(1, sizes[i]));
        ck_assert_int_eq(errno, ENOMEM);
        errno = 0;
        ck_assert_ptr_null(hf_realloc(p, sizes[i]));
        ck_assert_int_eq(errno, ENOMEM);
        errno = 0;
        ck_assert_ptr_null(hf_aligned_alloc(4096, sizes[i]));
        ck_assert_int_eq(errno, ENOMEM);
    }
    for (size_t i = 0; i < 100; i++)
        ck_assert_int_eq(((char *)p)[i], 7);
    hf_free(p);
}
END_TEST

int main(void)
{
    return RUN_SUITE(size_zero_gives_distinct_pointers, every_size_has_a_block,
                     blocks_do_not_overlap, impossible_sizes_give_enomem);
}
