/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How several interpreters of this process can run at the same time: which engine its CPython has,
 * and why none. Owns nothing; any thread, at any stage after the heap's start.
 */
#ifndef HOMEFREE_SATELLITES_INTERPRETERS_ENGINE_H
#define HOMEFREE_SATELLITES_INTERPRETERS_ENGINE_H

#include "loader/host/cpython.h"

#include <homefree/interpreters.h>

/* Finds the CPython and its engine. `anchor` is the address of a function of CPython's, or NULL.
 * Returns as hf_interpreters_engine(); on success `out`, which may be NULL, receives the functions.
 */
int hf_engine_find(const void *anchor, const struct hf_cpython_interpreters **out, char *why,
                   size_t size);

/* Whether CPython cannot be entered any more: it is not initialised, or is being finalized. */
bool hf_engine_is_gone(const struct hf_cpython_interpreters *py);

#endif
