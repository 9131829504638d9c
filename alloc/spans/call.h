/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a call enters the heap where the fast paths end: through the fork gate
 * (heap/fork_gate.h). Every call that takes a lock of the heap begins so. Owns nothing; any
 * thread, at any stage, in signal handlers too.
 */
#ifndef HOMEFREE_ALLOC_SPANS_CALL_H
#define HOMEFREE_ALLOC_SPANS_CALL_H

#include "alloc/heap/fork_gate.h"
#include "alloc/spans/local.h"

/* Starts the heap if necessary. False while the process forks: then the caller must do without the
 * heap's locks. */
static inline bool hf_enter(struct hf_pass *pass)
{
    if (HF_UNLIKELY(hf_local_own() == NULL))
        hf_heap_start();
    return HF_LIKELY(hf_gate_enter(pass));
}

/* The same for calls that need memory from the heap: waits for the fork to finish if that may
 * help. */
static inline bool hf_enter_patiently(struct hf_pass *pass)
{
    return HF_LIKELY(hf_enter(pass)) || (hf_gate_wait() && hf_enter(pass));
}

/* While a watch is open or calls are counted, every call takes a slow path, so the fast paths need
 * no test. */
static inline bool hf_is_watched(void)
{
    return HF_UNLIKELY(__atomic_load_n(&hf_watching, __ATOMIC_RELAXED));
}

#endif
