/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The seam to glibc's malloc, as far as its data can be read in memory: whether it owns an address,
 * and which block holds it. No other file knows its chunk layout. Any thread, at any stage.
 */
#ifndef HOMEFREE_ALLOC_OWNER_LIBC_HEAP_H
#define HOMEFREE_ALLOC_OWNER_LIBC_HEAP_H

#include "alloc/base/maps.h"

#include <homefree/homefree.h>

/* Another party moves the program break, or may have done so before it could be observed. An
 * address below the break is then libc's only if libc's own data says so. Set by callers with
 * better knowledge. */
extern _Atomic(bool) hf_libc_heap_break_is_shared;

/* Fills owner if an address certainly belongs to glibc's malloc. Reads memory without faulting,
 * takes no lock; blocks may come and go meanwhile. */
bool hf_libc_heap_describe(const void *ptr, const struct hf_place *place, struct hf_owner *owner);

/* Whether an address certainly belongs to glibc's malloc. Asks the kernel; otherwise as above. */
bool hf_libc_heap_owns(const void *ptr);

/* Whether the chunk headers show a block of glibc's malloc at an address, without asking the
 * kernel: for an address that is either glibc's or one other allocator's. Reads memory without
 * faulting, takes no lock. */
bool hf_libc_heap_holds(const void *ptr);

/* Whether glibc's free() would certainly refuse an address: no chunk can begin there. Reads memory
 * without faulting, takes no lock. */
bool hf_libc_heap_denies(const void *ptr);

#endif
