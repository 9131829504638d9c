/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a plan (plan.h) consists of. Data alone.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_HIDDEN_PLANNED_H
#define HOMEFREE_SATELLITES_ADOPT_HIDDEN_PLANNED_H

#include "loader/foreign/known_allocators.h"
#include "satellites/adopt/hidden/guard.h"

#include <stdint.h>

/* Code that is replaced, or gets a guard. */
struct hf_redirection {
    uint64_t address, capacity; /* bytes, with the padding behind it */
    const char *name;           /* one of its names */
    const char *function;       /* libhomefree's */
    enum hf_guard guard;        /* in a release-only plan */
    size_t displaced;           /* bytes, likewise */
};

struct hf_plan {
    struct hf_redirection *redirections; /* by address */
    size_t count;
    uint64_t
        *hidden; /* functions of the old allocator whose names others must not find, ascending */
    size_t hidden_count;
    bool allocators[HF_ALLOCATOR_COUNT]; /* whose entry points were found */
    bool drops_thread_data; /* nothing but the old allocator uses the object's thread-local storage
                             */
    bool release_only;      /* the allocator stays, and its functions that take a block get guards
                               (release_only.h) */
    char why[384];          /* after a refusal, also if it led to a release-only plan */
};

#endif
