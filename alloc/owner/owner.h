/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the owner of an address. Owns nothing; takes no lock of the heap.
 */
#ifndef HOMEFREE_ALLOC_OWNER_OWNER_H
#define HOMEFREE_ALLOC_OWNER_OWNER_H

#include <homefree/homefree.h>

/* hf_owner_of() without forwarding, in a copy that has started. Any thread. */
int hf_owner_of_here(const void *ptr, struct hf_owner *out);

#endif
