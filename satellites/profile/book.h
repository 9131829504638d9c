/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The book: all memory of a profile, in one reserve of address space whose pages come with their
 * use. alloc/base/profile_book.h has its layout.
 *
 * Owns the reserve, which stays once it was made. All functions: with the lock of
 * profile_samples.h, but for hf_book_at(), which any thread may call while no profile begins.
 *
 * A child may be forked at any moment: whatever is added is complete before one store publishes it.
 */
#ifndef HOMEFREE_SATELLITES_PROFILE_BOOK_H
#define HOMEFREE_SATELLITES_PROFILE_BOOK_H

#include "alloc/base/profile_book.h"

#include <stdbool.h>
#include <stddef.h>

/* NULL before the first profile. */
extern struct hf_book *hf_book;

/* Makes the reserve if there is none, and empties it. False if there is no address space. */
bool hf_book_begin(uint64_t mean);

static inline void *hf_book_at(uint32_t reference)
{
    return (char *)hf_book + (size_t)reference * HF_BOOK_UNIT;
}

/* A reference to bytes, which are kept once; 0 if there is no room. */
uint32_t hf_book_keep(const void *bytes, size_t size);

#endif
