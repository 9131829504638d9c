/* Programs that do what their only argument names. */
#ifndef HOMEFREE_TESTS_SUPPORT_CASES_H
#define HOMEFREE_TESTS_SUPPORT_CASES_H

#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct named_case {
    const char *name;
    void (*run)(void);
};

/* Runs the case, and prints that it returned. Result: for main(); 2 if there is none of that name.
 */
#define RUN_NAMED_CASE(cases, argc, argv) \
    run_named_case(cases, sizeof(cases) / sizeof *(cases), argc, argv)

/* A main() that does nothing else. */
#define NAMED_CASES_MAIN(cases)                   \
    int main(int argc, char **argv)               \
    {                                             \
        return RUN_NAMED_CASE(cases, argc, argv); \
    }

static inline int run_named_case(const struct named_case *cases, size_t count, int argc,
                                 char **argv)
{
    for (size_t i = 0; argc == 2 && i < count; i++)
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            puts("survived");
            return 0;
        }
    fprintf(stderr, "usage: %s CASE\n", argv[0]);
    return 2;
}

#endif
