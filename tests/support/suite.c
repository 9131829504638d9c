/* Owns nothing. */
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>

void take_arguments(int count, char **arguments, const char *names, const char **const *values)
{
    int taken = 1;
    for (; values[taken - 1] != NULL && taken < count; taken++)
        *values[taken - 1] = arguments[taken];
    if (taken != count || values[taken - 1] != NULL) {
        fprintf(stderr, "usage: %s with %s\n", arguments[0], names);
        exit(2);
    }
}

void add_tests(TCase *tcase, const TTest *const *tests)
{
    for (; *tests != NULL; tests++)
        tcase_add_test(tcase, *tests);
}

TCase *new_case(const char *name, const TTest *const *tests)
{
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, SUITE_SECONDS);
    add_tests(tcase, tests);
    return tcase;
}

int run_cases(const char *name, TCase *const *cases)
{
    Suite *suite = suite_create(name);
    for (; *cases != NULL; cases++)
        suite_add_tcase(suite, *cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int times(int n)
{
    return getenv("CK_FORK") == NULL ? n : n / 20 + 1;
}
