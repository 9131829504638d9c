/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guards: code in front of a function that takes a block, which asks first whether the block
 * belongs to another allocator. If it does, the heap's function is called in its place; otherwise
 * the function runs from its first instructions on, which were displaced.
 *
 * Owns: nothing, keeps nothing. Bytes are hostile; see code.h. Any thread.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_HIDDEN_GUARD_H
#define HOMEFREE_SATELLITES_ADOPT_HIDDEN_GUARD_H

#include <stddef.h>
#include <stdint.h>

/* Which argument is the block. */
enum hf_guard {
    HF_GUARD_NONE, /* the function is not guarded */
    HF_GUARD_FIRST,
    HF_GUARD_SECOND,
    HF_GUARD_POINTED /* what the first one points to */
};

/*
 * How many bytes at the beginning of a function become a jump to its guard: whole instructions that
 * do the same at another address, and to which nothing in the function jumps. 0 if that cannot be
 * said of them. `size` bytes belong to the function, which is at `address` in its object.
 */
size_t hf_guard_displaced(const unsigned char *bytes, size_t size, uint64_t address);

/*
 * For a function that threads may be running: the size of its first instruction, if two bytes at
 * its beginning can be replaced by one store and no thread can be between them. 0 otherwise.
 */
size_t hf_guard_first(const unsigned char *bytes, size_t size, uint64_t address);

/* Writes the two bytes, a jump to `to`, and the five at `to`, a jump to the guard at `at`. Returns
 * whether both are in reach. */
#define HF_GUARD_SHORT 2
#define HF_GUARD_LONG  5
int hf_guard_enter_by(uint64_t address, uint64_t to, uint64_t at,
                      unsigned char first[HF_GUARD_SHORT], unsigned char second[HF_GUARD_LONG]);

/*
 * Writes the guard of a function of which `displaced` bytes were displaced. Its address is `at`;
 * the words at `question` and `function` will point to bool f(const void *block) and to the
 * function of the heap. All registers that carry arguments keep their values. Returns the size, or
 * 0 if something is out of reach.
 */
#define HF_GUARD_MAX 192
size_t hf_guard_write(const unsigned char *bytes, size_t displaced, uint64_t address,
                      enum hf_guard guard, uint64_t at, uint64_t question, uint64_t function,
                      unsigned char out[HF_GUARD_MAX]);

/* Writes the jump to the guard at `at` in place of the displaced bytes. A landing pad for indirect
 * calls stays. Returns whether the guard is in reach. */
#define HF_GUARD_DISPLACED_MAX 32
int hf_guard_enter(const unsigned char *bytes, size_t displaced, uint64_t address, uint64_t at,
                   unsigned char out[HF_GUARD_DISPLACED_MAX]);

#endif
