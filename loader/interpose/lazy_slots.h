/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lazily bound GOT slots: calls a function through a slot that the loader has not resolved yet, as
 * the object's PLT entry would. The call makes the loader resolve the slot in the object's own
 * scope.
 *
 * Stateless. Callers keep the object loaded: by the loader's lock, or because it cannot be
 * unloaded. The call may take the loader's lock.
 */
#ifndef HOMEFREE_LOADER_INTERPOSE_LAZY_SLOTS_H
#define HOMEFREE_LOADER_INTERPOSE_LAZY_SLOTS_H

#include "loader/interpose/got_slots.h"

/* Returns whether `value`, read from the slot, is PLT code of the slot's object that resolves the
 * slot when hf_lazy_call() jumps to it. */
bool hf_lazy_is_unresolved(const struct hf_slot *slot, const void *value);

/*
 * Jumps to `value`, for which hf_lazy_is_unresolved() holds, with what a PLT entry passes on
 * besides the arguments. `relocation` and `address` are the slot's. Returns what the function
 * returns; meaningless for functions that return nothing.
 */
void *hf_lazy_call(void *first_argument, size_t second_argument, void *value, size_t relocation,
                   void **address) __attribute__((visibility("hidden")));

#endif
