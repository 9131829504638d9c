/*
 * CPython's allocation domains (RAW, MEM, OBJ) served by the heap, through hooks that accept any
 * pointer. Called by host.c, under the host's lock.
 */
#ifndef HOMEFREE_DOMAINS_H
#define HOMEFREE_DOMAINS_H

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

/* The allocator below the hook, or NULL if there is no hook. Valid for ever. */
const struct hf_py_allocator *hf_domain_previous(enum hf_py_domain domain);

#endif
