/* Every function that hands out a block makes samples, every one that takes a block back ends them,
 * and what cannot be done is said. */
#include "looking.h"
#include "suite.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void check(const void *block, size_t size)
{
    const struct looked looked = look_for(block);
    must(looked.samples == 1 && looked.bytes == size);
    must(hf_usable_size(block) >= size);
}

static void check_free(void *block, size_t size)
{
    must(block != NULL);
    check(block, size);
    hf_free(block);
    must(look_for(block).samples == 0);
}

static int count(void *context, void *ptr, size_t size)
{
    (void)size;
    *(bool *)context |= look_for(ptr).samples != 0;
    return 0;
}

static const size_t sizes[] = {LARGE_ENOUGH, 1000, 32 << 10, (32 << 10) + 1, 3 << 20};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

START_TEST(test_allocating)
{
    void *block;
    bool found = false;
    struct hf_heap *heap;
    ck_assert_int_eq(hf_profile_begin(EVERY), 0);
    for (size_t i = 0; i < SIZES; i++) {
        const size_t size = sizes[i];
        check_free(hf_malloc(size), size);
        check_free(hf_calloc(1, size), size);
        check_free(hf_realloc(NULL, size), size);
        check_free(hf_reallocarray(NULL, 1, size), size);
        check_free(hf_aligned_alloc(64, size), size);
        check_free(hf_memalign(4096, size), size);
        check_free(hf_memalign((size_t)64 << 10, size), size);
        ck_assert_int_eq(hf_posix_memalign(&block, 16, size), 0);
        check_free(block, size);
        ck_assert_int_eq(hf_heap_new(&heap), 0);
        check_free(hf_heap_malloc(heap, size), size);
        check_free(hf_heap_zalloc(heap, size), size);
        check_free(hf_heap_memalign(heap, 256, size), size);
        block = hf_heap_malloc(heap, size);
        check(block, size);
        ck_assert_int_eq(hf_heap_walk(heap, count, &found), 0);
        ck_assert(found);
        ck_assert_int_eq(hf_heap_drop(heap), 0);
        ck_assert_uint_eq(look_for(block).samples, 0);
    }
    char *text = hf_strdup("as long as sixty-four bytes, which is more than one might think it is");
    check_free(text, strlen(text) + 1);
    hf_free(hf_malloc(0));
    ck_assert_int_eq(hf_profile_end(), 0);
    ck_assert_uint_eq(look_for(NULL).samples, 0);
}
END_TEST

START_TEST(test_resizing)
{
    ck_assert_int_eq(hf_profile_begin(EVERY), 0);
    for (size_t from = 0; from < SIZES; from++)
        for (size_t to = 0; to < SIZES; to++) {
            char *block = hf_malloc(sizes[from]);
            memset(block, 7, sizes[from]);
            char *resized = hf_realloc(block, sizes[to]);
            must(resized != NULL && resized[0] == 7 && resized[LARGE_ENOUGH - 1] == 7);
            if (from != to)
                check(resized, sizes[to]);
            must(resized == block || look_for(block).samples == 0);
            hf_free(resized);
            ck_assert_uint_eq(look_for(resized).samples, 0);
        }
    void *volatile block = hf_malloc(1000);
    (void)!hf_realloc(block, 0);
    ck_assert_uint_eq(look_for(NULL).samples, 0);
    ck_assert_int_eq(hf_profile_end(), 0);
}
END_TEST

START_TEST(test_sized_frees)
{
    ck_assert_int_eq(hf_profile_begin(EVERY), 0);
    for (size_t i = 0; i < SIZES; i++) {
        hf_free_sized(hf_malloc(sizes[i]), sizes[i]);
        hf_free_aligned_sized(hf_memalign(64, sizes[i]), 64, sizes[i]);
    }
    ck_assert_uint_eq(look_for(NULL).samples, 0);
    ck_assert_int_eq(hf_profile_end(), 0);
}
END_TEST

static int stop(const struct hf_profile_sample *sample, void *context)
{
    (void)sample;
    ++*(int *)context;
    return 42;
}

static int begin_inside(const struct hf_profile_sample *sample, void *context)
{
    (void)sample;
    *(int *)context = hf_profile_begin(1000);
    return 0;
}

/* What the visitor allocates is seen or not, but does not keep it busy for ever. */
static int allocate(const struct hf_profile_sample *sample, void *context)
{
    void ***next = context;
    (void)sample;
    *(*next)++ = hf_malloc(1000);
    return 0;
}

START_TEST(test_visitor_that_allocates)
{
    enum { FEW = 100 };
    static void *blocks[FEW], *others[FEW + 1];
    void **next = others;
    ck_assert_int_eq(hf_profile_begin(EVERY), 0);
    for (size_t i = 0; i < FEW; i++)
        blocks[i] = hf_malloc(100);
    ck_assert_int_eq(hf_profile_each(allocate, &next), 0);
    ck_assert_ptr_eq(next, others + FEW);
    ck_assert_uint_eq(look_for(NULL).samples, 2 * (size_t)FEW);
    for (size_t i = 0; i < FEW; i++) {
        hf_free(blocks[i]);
        hf_free(others[i]);
    }
    ck_assert_int_eq(hf_profile_end(), 0);
}
END_TEST

START_TEST(test_results)
{
    int calls = 0, inside = 0;
    ck_assert_int_eq(hf_profile_each(stop, &calls), 0);
    ck_assert_int_eq(hf_profile_each(NULL, NULL), -EINVAL);
    ck_assert_int_eq(hf_profile_end(), -EINVAL);
    ck_assert_int_eq(hf_profile_begin(0), -EINVAL);
    ck_assert_int_eq(hf_profile_begin(EVERY), 0);
    ck_assert_int_eq(hf_profile_begin(EVERY), -EBUSY);
    void *blocks[] = {hf_malloc(1000), hf_malloc(1000)};
    ck_assert_int_eq(hf_profile_each(stop, &calls), 42);
    ck_assert_int_eq(calls, 1);
    ck_assert_int_eq(hf_profile_end(), 0);
    ck_assert_int_eq(hf_profile_end(), -EINVAL);
    /* The samples stay, until another profile begins. */
    ck_assert_uint_eq(look_for(NULL).samples, 2);
    ck_assert_int_eq(hf_profile_each(begin_inside, &inside), 0);
    ck_assert_int_eq(inside, -EBUSY);
    hf_free(blocks[0]);
    ck_assert_uint_eq(look_for(NULL).samples, 1);
    ck_assert_int_eq(hf_profile_begin(EVERY), 0);
    ck_assert_uint_eq(look_for(NULL).samples, 0);
    hf_free(blocks[1]); /* a sample of the one before */
    ck_assert_int_eq(hf_profile_end(), 0);
}
END_TEST

int main(void)
{
    return RUN_SUITE(test_allocating, test_resizing, test_sized_frees, test_visitor_that_allocates,
                     test_results);
}
