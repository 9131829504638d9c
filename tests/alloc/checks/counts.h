/* Runs all cases of errors.c, each in a child, and counts what became of them. */
#ifndef TESTS_ALLOC_CHECKS_COUNTS_H
#define TESTS_ALLOC_CHECKS_COUNTS_H

#include "errors.h"

#include <stdbool.h>

struct counts {
    size_t all;
    size_t caught;  /* SIGABRT: the allocator ended the process */
    size_t crashed; /* died of another signal */
    size_t hung;    /* did not end in time */
    size_t missed;  /* survived */
};

/* With `explain`, prints each case that did not end with homefree's one line. */
struct counts count_errors(const struct family *family, bool explain);

#endif
