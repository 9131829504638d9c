/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What CPython's hooks (loader/diagnose) tell the debug heap: the block that the interpreter has
 * freed or resized last in the calling thread. CPython passes a block that its allocator does not
 * know on to PyMem_RawFree() and PyMem_RawRealloc(), which would otherwise take it for one that the
 * program passes there.
 *
 * Owns that for each thread. Any thread, at any stage.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_PYTHON_CALLS_H
#define HOMEFREE_ALLOC_DIAGNOSE_PYTHON_CALLS_H

#include "alloc/diagnose/event.h"

#include <stdbool.h>

struct hf_python_call {
    const void *ptr; /* NULL before the first */
    struct hf_call_site site;
};

extern __thread struct hf_python_call hf_python_call
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Offers the question below, which a higher layer answers, and tells an address in the
 * interpreter's code. Called once. */
void hf_python_offer(bool (*are_watched)(void), const void *code);

/* That address; NULL before. */
extern const void *hf_python_code __attribute__((visibility("hidden")));

/* Whether CPython's domains lead to the hooks. If they did once and no longer do, their blocks are
 * freed by free(), like anybody's: CPython sets hooks aside by PYTHONMALLOC and, since 3.12, when
 * it starts again after its end. */
bool hf_python_is_watched(void);

#endif
