/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What operator new does in an adopted module when the heap has no memory: it calls the new handler
 * or throws std::bad_alloc, as the C++ runtime does that the module uses. A module may contain the
 * runtime as well (-static-libstdc++); its handler and its exceptions are its own.
 *
 * Owns nothing. Any thread; the caller holds no lock of homefree's. Compiled with -fexceptions.
 */
#ifndef HOMEFREE_LOADER_ADOPT_NO_MEMORY_H
#define HOMEFREE_LOADER_ADOPT_NO_MEMORY_H

#include <stddef.h>

/*
 * Returns memory that was found after all, or throws. `alignment`: 0 for the plain operator.
 * `caller`: an address in the module. Without any runtime it ends the process.
 */
void *hf_no_memory(size_t size, size_t alignment, const void *caller);

/* The same where memory that is found must not be had: returns once a new handler has, or throws.
 */
void hf_new_failed(const void *caller);

#endif
