/*
 * pymalloc as a hosted allocator of the region (alloc/owner/hosted.h). Its arenas are pages that
 * the region lends it. A block that anything frees there is passed to CPython if the calling thread
 * may call CPython at that moment. host.c calls these functions.
 */
#ifndef HOMEFREE_PYMALLOC_H
#define HOMEFREE_PYMALLOC_H

#include "loader/host/cpython.h"

/* Makes pymalloc get new arenas from the region. The calling thread is attached, or the runtime is
 * not initialised; the caller holds the host's lock. */
void hf_pymalloc_install(const struct hf_cpython *cpython);
/* Records the arenas that pymalloc will get, wherever they come from, so that its blocks are
 * recognised. The runtime is not initialised. */
void hf_pymalloc_record(const struct hf_cpython *cpython);
/* Makes pymalloc get new arenas from their previous source again. */
void hf_pymalloc_uninstall(void);

/* Sets the allocator that the OBJ domain had before "full" mode replaced it (domains.c); NULL if it
 * was not replaced. The allocator must live for ever. */
void hf_pymalloc_set_objects(const struct hf_py_allocator *previous);

#endif
