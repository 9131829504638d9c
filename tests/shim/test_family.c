/*
 * The malloc family of a module is the heap's, and does what libc's does: a module that was written
 * for libc must not notice the difference.
 */
#include "fixture.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Hides from the optimiser that the sizes are absurd; valgrind must not take them for negative. */
static volatile size_t absurd = SIZE_MAX / 2 + 1, too_large = (size_t)1 << 46;

static void assert_aligned(const void *block, size_t alignment)
{
    ck_assert_uint_eq((uintptr_t)block % alignment, 0);
}

START_TEST(every_function_is_bound_in_the_module)
{
    /* Through the module's GOT, a function of libc's would have another address. */
#define HF_SHIM(name, result, parameters, arguments, call) \
    ck_assert_ptr_nonnull(module.f_##name);                \
    ck_assert_msg(module.f_##name != libc.f_##name, #name " is libc's");
#define HF_SHIM_VARIADIC(name, parameters, last, call) HF_SHIM(name, int, parameters, (), call)
#include "shim/functions.def"
}
END_TEST

START_TEST(malloc_and_free)
{
    for (int i = 0; i < MAKERS; i++) {
        char *block = makers[i]->f_malloc(100);
        assert_home(makers[i], block);
        memset(block, 1, 100);
        makers[i]->f_free(block);
        char *empty = makers[i]->f_malloc(0), *other = makers[i]->f_malloc(0);
        assert_home(makers[i], empty);
        ck_assert_ptr_ne(empty, other);
        makers[i]->f_free(empty);
        makers[i]->f_free(other);
        errno = 0;
        ck_assert_ptr_null(makers[i]->f_malloc(too_large));
        ck_assert_int_eq(errno, ENOMEM);
        makers[i]->f_free(NULL);
    }
}
END_TEST

START_TEST(calloc_zeroes_and_checks_the_product)
{
    for (int i = 0; i < MAKERS; i++) {
        /* Repeated, so that a used block comes back. */
        for (int again = 0; again < 3; again++) {
            char *block = makers[i]->f_calloc(7, 100);
            assert_home(makers[i], block);
            for (int at = 0; at < 700; at++)
                ck_assert_int_eq(block[at], 0);
            memset(block, 0xff, 700);
            makers[i]->f_free(block);
        }
        ck_assert_ptr_null(makers[i]->f_calloc(absurd, 3));
    }
    /* valgrind's functions do not set errno. */
    errno = 0;
    ck_assert_ptr_null(module.f_calloc(absurd, 3));
    ck_assert_int_eq(errno, ENOMEM);
}
END_TEST

START_TEST(realloc_keeps_the_content_and_the_owner)
{
    for (int i = 0; i < MAKERS; i++) {
        char *block = makers[i]->f_realloc(NULL, 10);
        assert_home(makers[i], block);
        strcpy(block, "content");
        block = makers[i]->f_realloc(block, 1 << 20);
        assert_home(makers[i], block);
        ck_assert_str_eq(block, "content");
        errno = 0;
        ck_assert_ptr_null(makers[i]->f_realloc(block, too_large));
        ck_assert_int_eq(errno, ENOMEM);
        ck_assert_str_eq(block, "content");
        block = makers[i]->f_reallocarray(block, 3, 5);
        assert_home(makers[i], block);
        ck_assert_str_eq(block, "content");
        errno = 0;
        ck_assert_ptr_null(makers[i]->f_reallocarray(block, absurd, 3));
        ck_assert_int_eq(errno, ENOMEM);
        ck_assert_ptr_null(makers[i]->f_realloc(block, 0)); /* frees the block */
    }
}
END_TEST

START_TEST(blocks_of_others_are_resized_by_their_owner)
{
    char *theirs = libc.f_malloc(10);
    strcpy(theirs, "theirs");
    theirs = module.f_realloc(theirs, 100000);
    assert_home(&libc, theirs);
    ck_assert_str_eq(theirs, "theirs");
    theirs = module.f_reallocarray(theirs, 1000, 1000);
    assert_home(&libc, theirs);
    ck_assert_str_eq(theirs, "theirs");
    ck_assert_uint_ge(module.f_malloc_usable_size(theirs), 1000000);
    module.f_free(theirs);
    module.f_free_sized(libc.f_malloc(10), 10);
    module.f_free_aligned_sized(libc.f_aligned_alloc(64, 128), 64, 128);
    module.f_cfree(libc.f_strdup("theirs"));
}
END_TEST

START_TEST(alignments)
{
    for (int i = 0; i < MAKERS; i++)
        for (size_t alignment = sizeof(void *); alignment <= (1 << 21); alignment *= 2) {
            void *blocks[3] = {makers[i]->f_aligned_alloc(alignment, alignment * 2),
                               makers[i]->f_memalign(alignment, 10), NULL};
            ck_assert_int_eq(makers[i]->f_posix_memalign(&blocks[2], alignment, 100), 0);
            for (int at = 0; at < 3; at++) {
                assert_home(makers[i], blocks[at]);
                assert_aligned(blocks[at], alignment);
                *(char *)blocks[at] = 1;
                makers[i]->f_free(blocks[at]);
            }
        }
}
END_TEST

START_TEST(posix_memalign_leaves_the_result_alone_when_it_fails)
{
    for (int i = 0; i < MAKERS; i++) {
        void *block = &block;
        ck_assert_int_eq(makers[i]->f_posix_memalign(&block, 24, 10), EINVAL);
        ck_assert_int_eq(makers[i]->f_posix_memalign(&block, 2, 10), EINVAL);
        ck_assert_int_eq(makers[i]->f_posix_memalign(&block, 0, 10), EINVAL);
        ck_assert_int_eq(makers[i]->f_posix_memalign(&block, 64, too_large), ENOMEM);
        ck_assert_ptr_eq(block, &block);
    }
}
END_TEST

START_TEST(valloc_and_pvalloc_give_pages)
{
    /* Only the module: valgrind ends a process that calls libc's pvalloc(). */
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *block = module.f_valloc(10);
    assert_home(&module, block);
    assert_aligned(block, page);
    module.f_free(block);
    const size_t sizes[] = {0, 1, page - 1, page, page + 1};
    for (size_t at = 0; at < sizeof sizes / sizeof sizes[0]; at++) {
        block = module.f_pvalloc(sizes[at]);
        assert_home(&module, block);
        assert_aligned(block, page);
        size_t pages = (sizes[at] + page - 1) & -page;
        ck_assert_uint_ge(module.f_malloc_usable_size(block), pages);
        memset(block, 1, pages);
        module.f_free(block);
    }
    errno = 0;
    ck_assert_ptr_null(module.f_pvalloc(SIZE_MAX - 1));
    ck_assert_int_eq(errno, ENOMEM);
}
END_TEST

START_TEST(usable_size)
{
    for (int i = 0; i < MAKERS; i++) {
        ck_assert_uint_eq(makers[i]->f_malloc_usable_size(NULL), 0);
        for (size_t size = 1; size < 100000; size = size * 3 + 1) {
            char *block = makers[i]->f_malloc(size);
            size_t usable = makers[i]->f_malloc_usable_size(block);
            ck_assert_uint_ge(usable, size);
            memset(block, 1, usable);
            makers[i]->f_free(block);
        }
    }
}
END_TEST

START_TEST(free_keeps_errno)
{
    for (int i = 0; i < MAKERS; i++)
        for (size_t size = 1; size < (size_t)1 << 26; size *= 4) {
            void *block = makers[i]->f_malloc(size);
            errno = EDOM;
            makers[i]->f_free(block);
            ck_assert_int_eq(errno, EDOM);
        }
}
END_TEST

START_TEST(every_form_of_free_frees)
{
    /* The same thread gets the last block of a size back. */
    void *block = module.f_malloc(48);
    module.f_free(block);
    void *again = module.f_malloc(48);
    ck_assert_ptr_eq(again, block);
    module.f_cfree(again);
    again = module.f_malloc(48);
    ck_assert_ptr_eq(again, block);
    module.f_free_sized(again, 48);
    again = module.f_malloc(48);
    ck_assert_ptr_eq(again, block);
    module.f_free(again);
    block = module.f_aligned_alloc(64, 64);
    module.f_free_aligned_sized(block, 64, 64);
    again = module.f_aligned_alloc(64, 64);
    ck_assert_ptr_eq(again, block);
    module.f_free(again);
}
END_TEST

int main(int count, char **arguments)
{
    load_module(count, arguments);
    return RUN_TESTS("family", every_function_is_bound_in_the_module, malloc_and_free,
                     calloc_zeroes_and_checks_the_product, realloc_keeps_the_content_and_the_owner,
                     blocks_of_others_are_resized_by_their_owner, alignments,
                     posix_memalign_leaves_the_result_alone_when_it_fails,
                     valloc_and_pvalloc_give_pages, usable_size, free_keeps_errno,
                     every_form_of_free_frees);
}
