/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What happens when a limit is reached: who trims, and who calls the callback.
 *
 * Owns what is to be done for each limit, and the lock under which one thread at a time does it; it
 * comes before all of homefree's. Whoever cannot have it soon does without: no thread waits for
 * ever, whatever a callback waits for. Any thread that allocates; no lock of homefree's is held.
 */
#ifndef HOMEFREE_SATELLITES_LIMITS_LIMIT_POLICY_H
#define HOMEFREE_SATELLITES_LIMITS_LIMIT_POLICY_H

#include "satellites/limits/limits_core.h"

struct hf_policy {
    unsigned mode; /* enum hf_limit_mode */
    hf_limit_callback *callback;
    void *context;
    const char *name;
    uint64_t crossings; /* atomic */
    unsigned objects;   /* atomic */
};
extern struct hf_policy hf_policies[HF_LIMITS_COUNT];

/* Finds CPython, if the process has one. */
void hf_policy_start(void);

/* The limit would be passed. True: something was done about it, and it is worth another try. */
bool hf_policy_exceeded(unsigned limit, uint64_t asked);

/* After a block was counted, in mode HF_LIMIT_WARN: the limit may have been passed. */
void hf_policy_passed(unsigned limit, const void *block);
static inline void hf_policy_counted(unsigned limit, const void *block)
{
    const struct hf_limited *limited = &hf_core()->limited[limit];
    if (limited->lenient && __atomic_load_n(&limited->used, __ATOMIC_RELAXED) >
                                __atomic_load_n(&limited->most, __ATOMIC_RELAXED))
        hf_policy_passed(limit, block);
}

/* Fills what is known of a limit. */
struct hf_limit_state hf_policy_state(unsigned limit);

/* The policy is about to end: no callback of it runs any more, nor begins, but the caller's. */
void hf_policy_end(unsigned limit);

#endif
