/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which objects keep memory of ended interpreters, and why: a row for each, for the process's life.
 *
 * leavings.c owns the table and its lock. Any thread.
 */
#ifndef HOMEFREE_LOADER_HOST_LEAVINGS_H
#define HOMEFREE_LOADER_HOST_LEAVINGS_H

#include <homefree/interpreters/memory.h>

/* One more interpreter has left so many bytes because of an object. why: a literal. Without memory
 * or a free row, nothing is noted. */
void hf_leavings_add(const char *object, const char *why, uint64_t bytes);

/* As hf_interpreters_leaks(). */
int hf_leavings_each(hf_interpreter_leak_visitor *visit, void *context);

#endif
