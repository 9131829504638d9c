/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages that are made present before they are used, because many at once cost a fraction of one
 * fault each: in proportion to what is in use, so that a small program stays small. Nothing of it
 * where memory is short or the administrator wants none: under RLIMIT_DATA, once the heap has used
 * half of a cgroup's limit, and where transparent huge pages are off.
 *
 * present.c owns what the system said when the heap started; it asks nothing later, because a
 * sandbox may then forbid it, and end the process. The other functions: any thread, without a lock,
 * for pages that the caller has. They do nothing if the kernel refuses.
 */
#ifndef HOMEFREE_ALLOC_PAGES_PRESENT_H
#define HOMEFREE_ALLOC_PAGES_PRESENT_H

#include <stddef.h>

/* Once, after the options have been read. */
void hf_present_start(void);

/* How many bytes may be made present ahead of their use if as many are in use: an eighth. 0 if
 * none. taken: hf_pages_taken(). */
size_t hf_present_ahead(size_t used, size_t taken);

/* Makes the pages of a range present, at most HF_PRESENT_MOST bytes of it. */
#define HF_PRESENT_MOST ((size_t)512 << 10)
void hf_present_make(void *at, size_t size);

/* Fresh addresses, a multiple of 2 MiB at a multiple of that: the kernel may use huge pages. */
void hf_present_huge(void *at, size_t size);

/* Fresh addresses of any kind: what the option thp says of them. */
void hf_present_advise(void *at, size_t size);

#endif
