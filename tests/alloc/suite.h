/* What every program here begins and ends with: a Check suite of a few tests. */
#ifndef TESTS_ALLOC_SUITE_H
#define TESTS_ALLOC_SUITE_H

#include <check.h>
#include <homefree/homefree.h>
#include <stddef.h>
#include <stdlib.h>

#define SKIPPED 77

/* Runs the named tests; returns what main() shall return. */
#define RUN_SUITE(...) run_suite(__FILE__, (const TTest *const[]){__VA_ARGS__, NULL})

static inline int run_suite(const char *name, const TTest *const tests[])
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 100);
    for (; *tests != NULL; tests++)
        tcase_add_test(tcase, *tests);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* How often to do something: n times, or fewer where Check does not fork, which is how the suites
 * run under valgrind, many times slower. */
static inline int times(int n)
{
    return getenv("CK_FORK") == NULL ? n : n / 20 + 1;
}

static inline struct hf_stats stats_now(void)
{
    struct hf_stats stats;
    stats.size = sizeof stats;
    ck_assert_int_eq(hf_stats(&stats), 0);
    return stats;
}

#endif
