/* A constructor of another library uses the heap before libhomefree's own has run: the heap starts
 * then. The library has no dependency on libhomefree (weak names), and is linked after it, so that
 * the loader initialises it first. Built twice: the first call is malloc, or free. */
#include "death.h"
#include "heap.h"
#include "suite.h"

#include <stdio.h>
#include <string.h>

extern char *early_block;
extern size_t early_region_size;
extern int early_mode;

START_TEST(the_heap_starts_when_it_is_first_used)
{
    ck_assert_ptr_nonnull(early_block);
    ck_assert(hf_owns(early_block));
    ck_assert_str_eq(early_block, "early");
    ck_assert_uint_ge(hf_usable_size(early_block), 100000);
    ck_assert_uint_eq(stats_now().forwards, 0);
    ck_assert_uint_ge(stats_now().region_reserved, hf_region_range.size);
    hf_free(early_block);
    char *p = hf_malloc(10);
    ck_assert(hf_owns(p));
    hf_free(p);
}
END_TEST

int main(void)
{
    if (early_region_size != 0) {
        printf("skipped: the loader ran libhomefree's constructor first (mode %c)\n", early_mode);
        return SKIPPED;
    }
    return RUN_SUITE(the_heap_starts_when_it_is_first_used);
}
