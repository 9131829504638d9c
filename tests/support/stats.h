/* The heap's statistics in a test. */
#ifndef TESTS_STATS_H
#define TESTS_STATS_H

#include <check.h>
#include <homefree/homefree.h>

static inline struct hf_stats stats_now(void)
{
    struct hf_stats stats;
    stats.size = sizeof stats;
    ck_assert_int_eq(hf_stats(&stats), 0);
    return stats;
}

#endif
