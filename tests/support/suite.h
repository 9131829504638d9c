/*
 * How every Check program begins and ends: its arguments, its suite, and main()'s result.
 *
 * Most programs have one case:
 *
 *     int main(int count, char **arguments)
 *     {
 *         TAKE_ARGUMENTS(&homefree_path, &user_path);
 *         return RUN_SUITE(first_test, second_test);
 *     }
 *
 * A case with a fixture or with loop tests is built with NEW_CASE() and Check's own functions, and
 * run with RUN_CASES(). CK_RUN_CASE, CK_VERBOSITY and CK_FORK work as Check's manual says.
 */
#ifndef HOMEFREE_TESTS_SUPPORT_SUITE_H
#define HOMEFREE_TESTS_SUPPORT_SUITE_H

#include <check.h>
#include <stddef.h>
#ifdef __cplusplus
#    include <initializer_list>
extern "C" {
#endif

/* The exit status that tells Meson that a test cannot run on this machine. */
#define SKIPPED 77

#ifdef __cplusplus
#    define NULL_ENDED(type, ...) (std::initializer_list<type>{__VA_ARGS__, nullptr}.begin())
#else
#    define NULL_ENDED(type, ...) ((type const[]){__VA_ARGS__, NULL})
#endif

/* Stores the program's arguments in these `const char *` variables, one in each; exits with 2 and a
 * usage line if there are more or fewer. */
#define TAKE_ARGUMENTS(...) \
    take_arguments(count, arguments, #__VA_ARGS__, NULL_ENDED(const char **, __VA_ARGS__))
void take_arguments(int count, char **arguments, const char *names, const char **const *values);

/* Runs the named tests as one case, named after the file or by the caller. Result: for main(). */
#define RUN_SUITE(...)       RUN_TESTS(__FILE__, __VA_ARGS__)
#define RUN_TESTS(name, ...) RUN_CASES(name, NEW_CASE(name, __VA_ARGS__))

/* A case with these tests. Each may take SUITE_SECONDS; tcase_set_timeout() changes that. */
#define NEW_CASE(name, ...) new_case(name, NULL_ENDED(const TTest *, __VA_ARGS__))
TCase *new_case(const char *name, const TTest *const *tests);
#define SUITE_SECONDS 100

/* Adds tests to a case that was made with Check's own functions. */
#define ADD_TESTS(tcase, ...) add_tests(tcase, NULL_ENDED(const TTest *, __VA_ARGS__))
void add_tests(TCase *tcase, const TTest *const *tests);

/* Runs a suite of these cases. Result: for main(). */
#define RUN_CASES(name, ...) run_cases(name, NULL_ENDED(TCase *, __VA_ARGS__))
int run_cases(const char *name, TCase *const *cases);

/* The number of repetitions: n, or fewer if Check does not fork, as under valgrind, where the
 * suites run many times slower. */
int times(int n);

#ifdef __cplusplus
}
#endif

#endif
