/*
 * pymalloc as a hosted allocator of the region (hosted allocator.h): its arenas are lent pages, and
 * what anybody frees there goes to CPython, if the caller may call CPython just then.
 */
#ifndef HOMEFREE_PYMALLOC_H
#define HOMEFREE_PYMALLOC_H

#include "loader/host/cpython.h"

/* From now on new arenas come from the region. The calling thread is attached, or the runtime is
 * not initialised; the caller holds the host's lock. */
void hf_pymalloc_install(const struct hf_cpython *cpython);
/* From now on new arenas come from where they came from before. */
void hf_pymalloc_uninstall(void);

/* What objects were allocated with before "full" mode took their domain over (domains.c); NULL
 * before. Lives for ever. */
void hf_pymalloc_set_objects(const struct hf_py_allocator *previous);

#endif
