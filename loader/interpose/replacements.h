/*
 * The functions that an adopted object's slots point to: for each allocating function of
 * shim/functions.def one that allocates from the heap.
 *
 * Three kinds. Most are libhomefree's function of that name. One that resizes sends a block that is
 * not the heap's where the slot sent it before, and operator new calls the operator that the slot
 * went to before when the heap is full: that one knows the new-handler and how to throw. Those two
 * kinds keep that function, their original, and exist HF_REPLACEMENT_ORIGINALS times each.
 */
#ifndef HOMEFREE_REPLACEMENTS_H
#define HOMEFREE_REPLACEMENTS_H

#include "loader/interpose/got_slots.h"

#define HF_REPLACEMENT_ORIGINALS 8

/* What adoption replaces: what allocates. What only frees or measures is routed instead. */
extern const struct hf_function_names hf_replacement_names;

/* operator new in any form. */
bool hf_replacement_is_operator(int function);
/* Whether the function resizes: it is routed too, and its original is routing's stub. */
bool hf_replacement_resizes(int function);
/* Whether the function needs an original. */
bool hf_replacement_wants_original(int function);

/* The function to put into a slot; NULL when HF_REPLACEMENT_ORIGINALS other originals are taken.
 * Never given back. One caller at a time (the loader's lock). */
void *hf_replacement_for(int function, void *original);

/* Whether an address is one of these functions. Any thread; reads constants alone. */
bool hf_replacement_is(const void *address);

#endif
