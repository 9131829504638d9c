/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guards of HOMEFREE_CONF=checks:hardened and checks:full: bytes behind the requested size that a
 * write past a block's end changes, and the requested size itself, sealed, in the block's last
 * word.
 *
 * Both depend on the block's address and on secrets of the process, so that they cannot be forged
 * without having been read. A word that was changed anywhere becomes an impossible size. The usable
 * size of a block with a guard is its requested size; blocks of no bytes have no guard.
 *
 * Owns the secrets and the guard's sizes, written once, by hf_guards_start(). The functions may be
 * called in any thread on a block that the caller owns; hf_guard_is_whole() on any.
 */
#ifndef HOMEFREE_ALLOC_SPANS_GUARDS_H
#define HOMEFREE_ALLOC_SPANS_GUARDS_H

#include "alloc/spans/entry.h"

#include <string.h>

struct hf_guards {
    uint64_t secrets[2]; /* the second one is odd */
    uint32_t least;      /* bytes that a block is larger by, at least; 0 without guards */
    uint32_t most;       /* bytes in front of the last word, at most */
    uint32_t large;      /* bytes behind a large block, at least */
};
extern struct hf_guards hf_guards __attribute__((visibility("hidden")));

/* wide: for checks:full. Sets hf_checks_full. */
void hf_guards_start(bool wide);

/* The size of a block with a guard; above PTRDIFF_MAX if there is none. */
static inline size_t hf_guard_capacity(size_t size)
{
    return size != 0 && size <= PTRDIFF_MAX ? size + hf_guards.least : size;
}

static inline uint64_t hf_guard_hash(const void *ptr)
{
    uint64_t x = ((uintptr_t)ptr ^ hf_guards.secrets[0]) * hf_guards.secrets[1];
    return x ^ x >> 32;
}

/* Any change of the product changes the factor in its upper bits. */
#define HF_GUARD_FACTOR  UINT64_C(0x9e3779b97f4a7c15)
#define HF_GUARD_INVERSE UINT64_C(0xf1de83e19937733d)

/* Eight bytes that most programs do not write: no ASCII, zero, 0x80 or 0xff. A write of the very
 * byte that is there goes undetected. */
static inline uint64_t hf_guard_pattern(uint64_t hash)
{
    return (hash | UINT64_C(0x8181818181818181)) & ~UINT64_C(0x4040404040404040);
}

static inline size_t hf_guard_canary(size_t usable, size_t size)
{
    const size_t capacity = usable - sizeof(uint64_t) - size;
    return capacity < hf_guards.most ? capacity : hf_guards.most;
}

/* Where the second word of a canary is, or the first once more, so that nothing depends on the
 * canary's size, which no processor foresees: most have at most two words. What a word reaches
 * behind the canary is the sealed word's. */
static inline size_t hf_guard_second(size_t canary)
{
    return canary > 8 ? 8 : 0;
}

static inline void hf_guard_mark(void *ptr, size_t usable, size_t size)
{
    const uint64_t hash = hf_guard_hash(ptr), pattern = hf_guard_pattern(hash);
    const uint64_t sealed = size * HF_GUARD_FACTOR ^ hash;
    const size_t canary = hf_guard_canary(usable, size);
    char *at = (char *)ptr + size;
    memcpy(at, &pattern, 8);
    memcpy(at + hf_guard_second(canary), &pattern, 8);
    for (size_t i = 16; i < canary; i += 8)
        memcpy(at + i, &pattern, 8);
    memcpy((char *)ptr + usable - sizeof sealed, &sealed, sizeof sealed);
}

/* Keeps the secrets out of the contents of a block that grows. */
static inline void hf_guard_wipe(void *ptr, size_t usable, size_t size)
{
    memset((char *)ptr + size, 0, hf_guard_canary(usable, size));
    memset((char *)ptr + usable - sizeof(uint64_t), 0, sizeof(uint64_t));
}

/* The requested size, as the block's last word has it; larger than possible if that was changed. */
static inline size_t hf_guard_asked(const void *ptr, size_t usable)
{
    uint64_t sealed;
    memcpy(&sealed, (const char *)ptr + usable - sizeof sealed, sizeof sealed);
    return (sealed ^ hf_guard_hash(ptr)) * HF_GUARD_INVERSE;
}

static inline bool hf_guard_is_possible(size_t usable, size_t asked)
{
    return asked <= usable - hf_guards.least;
}

/* What to call a block's size that may just be changing. */
static inline size_t hf_guard_least(size_t usable, size_t asked)
{
    return asked < usable ? asked : usable;
}

/* The bits in the first bytes of a word at which it differs from the pattern. */
static inline uint64_t hf_guard_difference(const char *at, size_t bytes, uint64_t pattern)
{
    uint64_t word;
    memcpy(&word, at, 8);
    return (word ^ pattern) & (bytes < 8 ? ((uint64_t)1 << 8 * bytes) - 1 : UINT64_MAX);
}

/* Whether the bytes behind the requested size are as they were. */
static inline bool hf_guard_is_whole(const void *ptr, size_t usable, size_t asked)
{
    const uint64_t pattern = hf_guard_pattern(hf_guard_hash(ptr));
    const char *at = (const char *)ptr + asked;
    const size_t canary = hf_guard_canary(usable, asked), second = hf_guard_second(canary);
    uint64_t different = hf_guard_difference(at, canary, pattern) |
                         hf_guard_difference(at + second, canary - second, pattern);
    for (size_t i = 16; i < canary; i += 8)
        different |= hf_guard_difference(at + i, canary - i, pattern);
    return different == 0;
}

/* The requested size; ends the process if the guard was overwritten. */
static inline size_t hf_guard_verify(const void *ptr, size_t usable, const void *caller,
                                     enum hf_corruption purpose)
{
    if (HF_UNLIKELY(usable == 0))
        return 0;
    const size_t asked = hf_guard_asked(ptr, usable);
    if (HF_UNLIKELY(!hf_guard_is_possible(usable, asked)))
        hf_heap_overflowed(ptr, caller, purpose, SIZE_MAX);
    if (HF_UNLIKELY(!hf_guard_is_whole(ptr, usable, asked)))
        hf_heap_overflowed(ptr, caller, purpose, asked);
    return asked;
}

#endif
