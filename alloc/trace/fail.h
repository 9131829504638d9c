/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Failure on demand: counts the calls that ask the heap for a block, and makes one of them fail.
 * homefree/fail.h describes the public side.
 *
 * Constraint: as for watches (watch.h), nothing is executed for this on the fast paths. While calls
 * are counted, `hf_watching` is set and every call takes a slow path, which asks hf_fail_now() (see
 * heap/front_end.h). Any thread may ask, at any stage; no lock is taken.
 */
#ifndef HOMEFREE_ALLOC_TRACE_FAIL_H
#define HOMEFREE_ALLOC_TRACE_FAIL_H

#include "alloc/heap/internal.h"
#include "alloc/trace/watch.h"

#include <errno.h>

/* For entry points that have no slow path of the front end below them: whether the call must fail;
 * errno is set then. */
static inline bool hf_fail_here(void)
{
    if (!HF_UNLIKELY(__atomic_load_n(&hf_watching, __ATOMIC_RELAXED)) || !hf_fail_now())
        return false;
    errno = ENOMEM;
    return true;
}

/* Brackets what libhomefree allocates for itself where its caller asked for no memory: neither
 * counted nor made to fail, and recorded as libhomefree's own. The result of the first goes to the
 * second. */
extern const struct hf_watch_call hf_own_call;
static inline const struct hf_watch_call *hf_own_begin(void)
{
    const struct hf_watch_call *before = hf_watch_call;
    hf_watch_call = &hf_own_call;
    return before;
}

static inline void hf_own_end(const struct hf_watch_call *before)
{
    hf_watch_call = before;
}

/* Whether the calling thread's calls are counted, so that one may be made to fail. */
bool hf_fail_is_counting(void);

/* The functions of homefree/fail.h without forwarding, in the copy that is the heap. */
int hf_fail_at_here(uint64_t call, unsigned flags);
int hf_fail_count_here(unsigned flags, struct hf_fail_counts *out);
int hf_fail_end_here(unsigned flags, struct hf_fail_counts *out);

#endif
