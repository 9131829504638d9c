/* The list of 116: 38 kinds of heap errors that programs make, each with 8 bytes, 4 KiB and 256
 * KiB, and two with no bytes, with what each tier of checks promises to do about them. Unlike
 * errors.c, which tries checks:full with many sizes, it is the same for every allocator and tier.
 */
#ifndef HOMEFREE_TESTS_ALLOC_CHECKS_KINDS_H
#define HOMEFREE_TESTS_ALLOC_CHECKS_KINDS_H

#include "errors.h"

enum { KIND_SIZES = 3 }; /* at most */

/* What is promised of a case. A program whose error is prevented goes on, without harm, and exits
 * with KIND_PREVENTED. */
enum promise {
    NOTHING = '-',
    ENDS = 'E',      /* SIGABRT, and a line with one of the kind's texts */
    FAULTS = 'F',    /* SIGSEGV: the memory may not be touched */
    STOPS = 'S',     /* ends or, where the block happens to lie at the end of its span, faults */
    PREVENTED = 'P', /* the error finds nothing to harm */
};
enum { KIND_PREVENTED = 17 };

/* In the order of the columns in kinds.c. */
enum tier { DEFAULT, HARDENED, FULL, TIERS };

struct kind {
    const char *name;
    void (*make)(const struct family *heap, size_t size, size_t unused);
    const char *texts[4];       /* parts of the fatal line, one of which it has; ends with NULL */
    const char *promise[TIERS]; /* a letter for each size */
};

/* Stores the kind with this number, and its sizes. Returns how many these are; 0 past the last one.
 */
size_t kind_at(size_t number, struct kind *out, const size_t **sizes);

#endif
