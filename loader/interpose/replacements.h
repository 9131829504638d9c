/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Replacements: the functions that an adopted object's slots point to. Each allocating function of
 * shim/functions.def has one that allocates from the heap.
 *
 * Most replacements simply call libhomefree's function of that name. The others need an original,
 * the function the slot pointed to before, and exist in HF_REPLACEMENT_ORIGINALS versions, one for
 * each original:
 * - functions that resize pass blocks that are not the heap's to the original;
 * - operator new calls the original when the heap is full, because the original handles the
 *   new-handler and throws.
 */
#ifndef HOMEFREE_LOADER_INTERPOSE_REPLACEMENTS_H
#define HOMEFREE_LOADER_INTERPOSE_REPLACEMENTS_H

#include "loader/interpose/got_slots.h"

#define HF_REPLACEMENT_ORIGINALS 8

/* The names of the replaced functions: those that allocate. Functions that only free or measure are
 * routed instead. */
extern const struct hf_function_names hf_replacement_names;

/* Returns whether the function is an operator new. */
bool hf_replacement_is_operator(int function);
/* Returns whether the function resizes. Such a function is also routed, and its original is
 * routing's stub. */
bool hf_replacement_resizes(int function);
/* Returns whether the replacement needs an original. */
bool hf_replacement_wants_original(int function);

/* Returns the replacement for a slot; NULL when HF_REPLACEMENT_ORIGINALS other originals are in
 * use. Replacements are never released. Called under the loader's lock. */
void *hf_replacement_for(int function, void *original);

/* Returns whether an address is a replacement. Any thread; reads only constants. */
bool hf_replacement_is(const void *address);

#endif
