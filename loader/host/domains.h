/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CPython's allocation domains (RAW, MEM, OBJ) served by the heap, through hooks that accept any
 * pointer. Called by host.c, under the host's lock.
 */
#ifndef HOMEFREE_LOADER_HOST_DOMAINS_H
#define HOMEFREE_LOADER_HOST_DOMAINS_H

#include "loader/host/cpython.h"

/*
 * Makes the domain allocate from the heap. The hook is installed below CPython's own wrappers
 * (debug hooks, tracemalloc), so that these continue to see every block. The calling thread is
 * attached, or the runtime is not initialised; the caller holds the host's lock.
 *
 * Returns 0, -ENOSPC if others have installed hooks over this one too often, or -EACCES if the
 * table could not be unsealed.
 */
int hf_domain_install(const struct hf_cpython *cpython, enum hf_py_domain domain);

/* Makes the domain allocate from its previous allocator again. The hook stays installed: it must
 * still free blocks of the heap, and other hooks may have kept its address. */
void hf_domain_uninstall(enum hf_py_domain domain);

/*
 * Whether the heap owns a block that begins at ptr. What CPython's debug hooks return of the heap's
 * RAW memory is inside a block, and is released by CPython's functions alone. That is known for
 * hooks that hf_domains_see_hooks() has seen; the calling thread is attached there.
 */
bool hf_domains_own(const void *ptr);
void hf_domains_see_hooks(const struct hf_cpython *cpython);

/* Tells which pages of the region are those of CPython's mimalloc: hooks pass its blocks on to what
 * they replaced. */
struct hf_hosted;
void hf_domains_see_mimalloc(const struct hf_hosted *hosted);

/* The allocator below the hook, or NULL if there is no hook. Valid for ever. */
const struct hf_py_allocator *hf_domain_previous(enum hf_py_domain domain);

#endif
