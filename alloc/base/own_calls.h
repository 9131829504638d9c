/* SPDX-License-Identifier: BSD-2-Clause */
/* See own_calls.c. */
#ifndef HOMEFREE_ALLOC_BASE_OWN_CALLS_H
#define HOMEFREE_ALLOC_BASE_OWN_CALLS_H

/* Leads this library's own slots of the functions that the heap calls to libc, once. The first step
 * of a copy's start. */
void hf_own_calls_bind(void);

/* The same for a satellite, in which an address lies, before anything in it is called. */
void hf_own_calls_bind_satellite(const void *inside);

#endif
