/* Runs all cases of errors.c or kinds.c, each in a child, and counts what became of them. */
#ifndef HOMEFREE_TESTS_ALLOC_CHECKS_COUNTS_H
#define HOMEFREE_TESTS_ALLOC_CHECKS_COUNTS_H

#include "kinds.h"

#include <stdbool.h>

struct counts {
    size_t all;
    size_t caught;    /* SIGABRT: the allocator ended the process */
    size_t crashed;   /* died of another signal */
    size_t hung;      /* did not end in time */
    size_t prevented; /* survived, because the error found nothing to harm */
    size_t missed;    /* survived */
    size_t kept;      /* ended as the tier promises */
    size_t broken;    /* did not */
};

/* With `explain`, prints each case that did not end with homefree's one line. */
struct counts count_errors(const struct family *family, bool explain);

/* Prints each case that did not end as the tier promises; TIERS promises nothing. */
struct counts count_kinds(const struct family *family, enum tier tier);

#endif
