/*
 * The seam to glibc's malloc, as far as its data lies open in memory: whether an address is in it,
 * and which block holds it. Nothing else in homefree knows the layout of its chunks.
 */
#ifndef HOMEFREE_LIBC_HEAP_H
#define HOMEFREE_LIBC_HEAP_H

#include "alloc/base/maps.h"

#include <homefree/homefree.h>

/* Somebody but libc moves the program break, or may have done so before anybody could see it: an
 * address below the break is then libc's only where libc's own data says so. Set by those who see
 * more than this file does. */
extern _Atomic(bool) hf_libc_heap_break_is_shared;

/* Fills owner where an address is exactly known to be glibc's malloc's. Reads memory safely, takes
 * no lock; blocks may come and go meanwhile. */
bool hf_libc_heap_describe(const void *ptr, const struct hf_place *place, struct hf_owner *owner);

/* Whether the books say that a block of glibc's malloc begins there, without the kernel's word: for
 * an address that is one allocator's or glibc's. Reads memory safely, takes no lock. */
bool hf_libc_heap_holds(const void *ptr);

#endif
