/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What watches (trace/watch.h) record of the debug heap: each block with the size that was
 * asked for, and the object whose code called. The plain heap below would report itself as called
 * by this library, and count the footers.
 *
 * While a watch is open, all calls leave the frequent paths (heap/front_end.h), so nothing is
 * tested there. Any thread, at any stage. Owns nothing.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_WATCHED_H
#define HOMEFREE_ALLOC_DIAGNOSE_WATCHED_H

#include "alloc/diagnose/event.h"
#include "alloc/diagnose/plain.h"
#include "alloc/diagnose/python_calls.h"
#include "alloc/trace/watch.h"

/* Whether a watch is open or calls are counted. */
static inline bool hf_is_watched(void)
{
    return HF_UNLIKELY(__atomic_load_n(&hf_watching, __ATOMIC_RELAXED));
}

/* An address in the object that a call counts for: what CPython's functions allocate and free
 * counts as the interpreter's. */
static inline __attribute__((always_inline)) const void *hf_watched_caller(struct hf_call_site call)
{
    return call.function >= HF_FUNCTION_PyMem_RawMalloc &&
                   call.function <= HF_FUNCTION_PyObject_Free && hf_python_code != NULL
               ? hf_python_code
               : call.caller;
}

/* Records a new block, which may be NULL. Returns it. */
static inline void *hf_watched_allocated(void *ptr, size_t size, struct hf_call_site call)
{
    return hf_watch_given(ptr, size, hf_watched_caller(call));
}

/* Frees what has no footer that says who does. */
void hf_watched_free(void *ptr, struct hf_call_site call);

/* Records that a block was resized, and stays where it is. Only while hf_is_watched(). */
void hf_watched_resized_here(void *ptr, size_t size, struct hf_call_site call);

#endif
