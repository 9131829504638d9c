/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who defines a function that slots lead to, and what follows from it: whether the function is the
 * one that its name promises, which object serves the process, and whether an operator takes blocks
 * of its own alone.
 *
 * Any thread, at any stage of the loader; takes no lock.
 */
#ifndef HOMEFREE_LOADER_INTERPOSE_DEFINERS_H
#define HOMEFREE_LOADER_INTERPOSE_DEFINERS_H

#include "alloc/base/dynlink.h"
#include "loader/interpose/routed.h"

#include <stdbool.h>

/* Returns the object in front of libc whose free() serves the process, or NULL, also if it is this
 * library; `libc` receives libc itself. Both are loaded at program start and stay, so they are
 * looked up only once. */
const struct link_map *hf_serving_object(const struct link_map **libc);

/* Returns whether that is the program itself. Its own calls of free() need no slot, so the heap's
 * blocks must not reach it: nothing in its process is adopted. */
bool hf_program_serves(void);
#define HF_PROGRAM_SERVES \
    "the program has a malloc of its own, which serves the process and takes no other memory"

/* Returns whether a name is reserved: whoever defines it, it is the known function. */
bool hf_name_is_reserved(enum hf_routed function);

/* Returns whether routing may intercept a function found by name. Some names are not reserved: they
 * have the known meaning only if libc or a known allocator defines them. */
bool hf_function_is_known(enum hf_routed function, const void *address);

/*
 * Returns whether an operator delete is called also for the heap's blocks, and so not routed. In
 * whole-process mode the C++ runtime's operator calls free(), which is ours. One that the program
 * has instead may expect a header that its operator new put in front of the object; the runtime's
 * sized and array operators call that one. Only an allocator's own operator takes no other block.
 */
bool hf_operator_takes_all(enum hf_routed function, const void *original);

#endif
