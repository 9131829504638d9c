/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asking every allocator of the process to give back what it does not use. Owns nothing; any
 * thread.
 */
#ifndef HOMEFREE_ALLOC_START_TRIM_H
#define HOMEFREE_ALLOC_START_TRIM_H

#include <homefree/homefree.h>

/* hf_trim() without forwarding, in the copy that is the heap. */
int hf_trim_here(hf_trim_visitor *visit, void *context);

/* The same in the middle of an allocation, whose caller may hold any lock: without allocators that
 * wait for their other threads (owner/hosted.h). */
int hf_trim_in_call(hf_trim_visitor *visit, void *context);

#endif
