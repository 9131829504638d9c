/* The heap, asked by a test that is linked with it. */
#ifndef HOMEFREE_TESTS_SUPPORT_HEAP_H
#define HOMEFREE_TESTS_SUPPORT_HEAP_H

#include <check.h>
#include <homefree/homefree.h>
#include <string.h>

static inline struct hf_stats stats_now(void)
{
    struct hf_stats stats;
    stats.size = sizeof stats;
    ck_assert_int_eq(hf_stats(&stats), 0);
    return stats;
}

/* Asserts that no live block of the heap is there any more. */
static inline void assert_gone(const void *block)
{
    struct hf_owner owner;
    memset(&owner, 0, sizeof owner);
    owner.size = sizeof owner;
    ck_assert_int_eq(hf_owner_of(block, &owner), 0);
    ck_assert_ptr_null(owner.block);
}

#endif
