/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The live samples, by their blocks' addresses.
 *
 * Owns the lock that guards the book, a leaf. A signal handler that interrupted its holder does
 * without: what it allocates is no sample, and what it frees is taken out later. A child that was
 * forked in between has one sample more or less.
 */
#ifndef HOMEFREE_SATELLITES_PROFILE_PROFILE_SAMPLES_H
#define HOMEFREE_SATELLITES_PROFILE_PROFILE_SAMPLES_H

#include "satellites/profile/profile_stack.h"

/* Makes the book empty. False if there is no address space. */
bool hf_profile_samples_begin(uint64_t mean);

/* What struct hf_sample_functions says; record: with the stack of the call. */
bool hf_profile_samples_add(const void *block, size_t size, const struct hf_profile_stack *stack);
void hf_profile_samples_remove(const void *block);
void hf_profile_samples_drop(bool (*gone)(void *context, const void *block), void *context);

/* Behind the highest number of a sample. */
uint32_t hf_profile_samples_end(void);

/* The first live sample from a number on and below another, and the number; false: there is none.
 */
bool hf_profile_samples_next(uint32_t *number, uint32_t below, struct hf_book_sample *out);

#endif
