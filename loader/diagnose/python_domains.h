/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CPython's mem and object domains in diagnostics mode. Hooks in front of its own allocators give
 * each block of the heap the kind of its domain, so that a free by another domain, or by free(), is
 * found, and they find calls by threads that are not attached to an interpreter.
 *
 * Requests that pymalloc would pass on to malloc() (more than 512 bytes) go to the heap directly;
 * smaller ones to pymalloc, whose arenas are recorded, so that its blocks are recognised elsewhere.
 * In a free-threaded build all of them go to CPython's mimalloc, which the collector walks, and
 * which is asked. Among the blocks of pymalloc and of mimalloc the two domains cannot be told
 * apart. The raw domain is malloc(): a block of the one may be freed by the other.
 */
#ifndef HOMEFREE_LOADER_DIAGNOSE_PYTHON_DOMAINS_H
#define HOMEFREE_LOADER_DIAGNOSE_PYTHON_DOMAINS_H

#include "loader/host/cpython.h"

/*
 * Installs the hooks, once. Does nothing where the interpreter has run already, and where the
 * domains do not have CPython's plain allocators (CPython's debug hooks check the same for
 * themselves). One thread at a time.
 */
void hf_python_domains_install(const struct hf_cpython *cpython);

#endif
