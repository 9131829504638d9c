/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A call of the malloc family, and what was wrong with it: the words in which the units of
 * diagnose/ speak to each other. Owns nothing.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_EVENT_H
#define HOMEFREE_ALLOC_DIAGNOSE_EVENT_H

#include "alloc/diagnose/report_format.h"

#include <stddef.h>

/* Who calls, and what: the function by the name in the caller's slot, and the return address. */
struct hf_call_site {
    enum hf_report_function function;
    const void *caller;
};

/* The call of an exported function, in that function: HF_CALL(malloc). */
#define HF_CALL(function) \
    ((struct hf_call_site){HF_FUNCTION_##function, __builtin_return_address(0)})

/* What a free states about its block; NULL members: nothing. */
struct hf_stated {
    const size_t *size, *alignment;
};
#define HF_NOTHING_STATED ((struct hf_stated){NULL, NULL})

/* What happened to a block, as far as it is known. */
struct hf_event {
    enum hf_report_rule rule;
    const void *ptr;
    const char *allocator;        /* name of the block's allocator; NULL: unknown */
    const char *allocator_object; /* path of the object that holds it; NULL: unknown */
    uint32_t allocated_site, freed_site, first_freed_site; /* 0: unknown */
    size_t bytes;                                          /* the block's size; 0: unknown */
    size_t asked, said;                                    /* sized-delete, aligned-delete */
    /* Stacks that were taken already. Without that of the free, the finding takes it. */
    struct hf_event_stack {
        const void *const *frames; /* NULL: not taken */
        size_t depth;
    } allocated, first_freed, freed;
};

#endif
