/*
 * CPython's allocation domains on the heap: hooks that any pointer may be given to.
 */
#ifndef HOMEFREE_DOMAINS_H
#define HOMEFREE_DOMAINS_H

#include "loader/host/cpython.h"

/*
 * From now on the domain allocates from the heap. The hook is put below CPython's own wrappers
 * (debug hooks, tracemalloc), so that these keep seeing every block. The calling thread is
 * attached, or the runtime is not initialised; the caller holds the host's lock.
 * Result: 0, or -ENOSPC when the domain was hooked over by others too often.
 */
int hf_domain_install(const struct hf_cpython *cpython, enum hf_py_domain domain);

/* From now on the domain allocates from where it did before. The hook stays: what the heap owns is
 * freed by the heap, and others may have kept the hook's address. */
void hf_domain_uninstall(enum hf_py_domain domain);

/* The allocator below the hook; NULL where there is no hook. Lives for ever. */
const struct hf_py_allocator *hf_domain_previous(enum hf_py_domain domain);

#endif
