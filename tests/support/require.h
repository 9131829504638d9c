/*
 * For programs that are no Check suites: a condition that is not so ends the program with a line on
 * stdout and status 1.
 */
#ifndef HOMEFREE_TESTS_SUPPORT_REQUIRE_H
#define HOMEFREE_TESTS_SUPPORT_REQUIRE_H

#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(condition)                                                   \
    do {                                                                     \
        if (!(condition)) {                                                  \
            printf("%s:%d: %s is not so\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                         \
        }                                                                    \
    } while (0)

#endif
