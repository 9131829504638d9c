/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Footers: the last six bytes of every block of a debug heap. They tell which site allocated
 * the block, by which kind of function and with which size, and after the free which site freed it.
 *
 *   63      54 53  36 35  32 31   16 15           0
 *   slack      site   kind   check   the caller's or   of a live block
 *                                    a constant
 *   freeing    site   15     check   freeing site      of a freed one, which has eight bytes
 *
 * `slack` is the room between the requested size and the footer. If it is two bytes or more, they
 * hold the constant; if it is SLACK_FAR or more, the eight bytes in front of them hold the slack.
 * `check` depends on the address, the site and the kind, so that an address that is no block's and
 * overwritten bytes are recognised. It and the constant come first in memory, where writing past
 * the requested size changes them.
 *
 * Owns nothing. A footer belongs to whoever owns its block.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_FOOTERS_H
#define HOMEFREE_ALLOC_DIAGNOSE_FOOTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    HF_FOOTER = 6,
    HF_FOOTER_SITES = 1 << 18, /* numbers of sites that fit */
    HF_LG_SLACK = 54,          /* where the slack begins */
    HF_SLACK_BITS = 64 - HF_LG_SLACK,
    HF_SLACK_FAR = (1 << HF_SLACK_BITS) - 1,
    HF_FOOTER_CONSTANT = 0xe9d5
};

/* What kind of function allocated a block; decides which functions may free it. */
enum hf_block_kind {
    HF_BLOCK_ANY, /* allocated by a function of homefree's own: any may free it */
    HF_BLOCK_MALLOC,
    HF_BLOCK_NEW,
    HF_BLOCK_NEW_ARRAY,
    HF_BLOCK_NEW_ALIGNED,
    HF_BLOCK_NEW_ARRAY_ALIGNED,
    HF_BLOCK_PYTHON_MEM, /* CPython's domains */
    HF_BLOCK_PYTHON_OBJECT,
    HF_BLOCK_FREED = 15
};

enum hf_footer_state {
    HF_FOOTER_LIVE,
    HF_FOOTER_FREED,
    HF_FOOTER_DAMAGED /* or the address is not a block's */
};

struct hf_footer {
    uint32_t site;
    enum hf_block_kind kind;
    size_t slack; /* the freeing site of a freed block */
};

/* ---- the word at the end of a block ---- */

/* The word but for the slack and what the block's address changes. */
static inline uint64_t hf_footer_base(uint32_t site, enum hf_block_kind kind)
{
    const uint32_t both = site << 4 | (uint32_t)kind;
    return (uint64_t)both << 32 | (both * 0x9e3779b1U & 0xffff0000) | HF_FOOTER_CONSTANT;
}

/* What the block's address changes. */
static inline uint64_t hf_footer_place(const void *ptr)
{
    return (uint32_t)((uintptr_t)ptr << 13) & 0xffff0000;
}

/* What a slack up to SLACK_FAR adds. */
static inline uint64_t hf_footer_slack(size_t slack)
{
    return slack << HF_LG_SLACK;
}

/* Whether the caller's bytes are as they must be. */
static inline bool hf_footer_constant(uint64_t word)
{
    return __builtin_expect((uint16_t)word == HF_FOOTER_CONSTANT, 1) || word >> HF_LG_SLACK < 2;
}

/* The base without the caller's bytes. If it is that of a site and a kind, the word is a live
 * block's, and intact. */
static inline uint64_t hf_footer_identity(const void *ptr, uint64_t word)
{
    return (word ^ hf_footer_place(ptr)) << HF_SLACK_BITS >> (HF_SLACK_BITS + 16);
}
static inline uint64_t hf_footer_identity_of(uint32_t site, enum hf_block_kind kind)
{
    return hf_footer_base(site, kind) >> 16;
}

/* The word of a freed block, but for what its address changes. */
static inline uint64_t hf_footer_freed(uint32_t site, uint32_t freed_site)
{
    return hf_footer_identity_of(site, HF_BLOCK_FREED) << 16 |
           hf_footer_slack(freed_site & HF_SLACK_FAR) | freed_site >> HF_SLACK_BITS;
}

static inline uint64_t hf_footer_load(const void *ptr, size_t capacity)
{
    uint64_t word;
    memcpy(&word, (const char *)ptr + capacity - sizeof word, sizeof word);
    return word;
}

/* All eight bytes, in a block that nobody uses. */
static inline void hf_footer_store(void *ptr, size_t capacity, uint64_t word)
{
    memcpy((char *)ptr + capacity - sizeof word, &word, sizeof word);
}

/* ---- the whole ---- */

/* What a far slack changes, so that such a block has another identity. */
enum { HF_FOOTER_FAR = 1 << 30 };

/* Writes a live block's, and leaves what the caller may use alone. capacity: the block's size,
 * footer included. base: from hf_footer_base(). */
static inline void hf_footer_write_live(void *ptr, size_t capacity, uint64_t base, size_t slack)
{
    uint64_t word = base ^ hf_footer_place(ptr);
    char *end = (char *)ptr + capacity;
    if (slack < 2) {
        word = (word | hf_footer_slack(slack)) >> 16;
        memcpy(end - HF_FOOTER, &word, HF_FOOTER);
        return;
    }
    if (slack < HF_SLACK_FAR) {
        word |= hf_footer_slack(slack);
    } else {
        word = (word | hf_footer_slack(HF_SLACK_FAR)) ^ HF_FOOTER_FAR;
        memcpy(end - sizeof word - sizeof slack, &slack, sizeof slack);
    }
    hf_footer_store(ptr, capacity, word);
}

static inline void hf_footer_write_freed(void *ptr, size_t capacity, uint64_t freed)
{
    hf_footer_store(ptr, capacity, freed ^ hf_footer_place(ptr));
}

/* Takes a footer apart: the word at the block's end, and the one in front of it, which counts if
 * the slack is far. The words need not be a footer. */
static inline enum hf_footer_state hf_footer_parse(const void *ptr, size_t capacity, uint64_t word,
                                                   uint64_t before, struct hf_footer *out)
{
    out->site = word >> 36 & (HF_FOOTER_SITES - 1);
    out->kind = (enum hf_block_kind)(word >> 32 & 15);
    out->slack = word >> HF_LG_SLACK;
    if (out->kind == HF_BLOCK_FREED) {
        out->slack |= (word & 0xffff) << HF_SLACK_BITS;
    } else if (out->slack == HF_SLACK_FAR && capacity > HF_SLACK_FAR) {
        word ^= HF_FOOTER_FAR;
        out->slack = before;
    }
    if (hf_footer_identity(ptr, word) != hf_footer_identity_of(out->site, out->kind))
        return HF_FOOTER_DAMAGED;
    if (out->kind == HF_BLOCK_FREED)
        return out->slack < HF_FOOTER_SITES ? HF_FOOTER_FREED : HF_FOOTER_DAMAGED;
    return out->slack <= capacity - HF_FOOTER && hf_footer_constant(word) ? HF_FOOTER_LIVE
                                                                          : HF_FOOTER_DAMAGED;
}

/* The bytes need not be a footer. */
static inline enum hf_footer_state hf_footer_read(const void *ptr, size_t capacity,
                                                  struct hf_footer *out)
{
    const bool may_be_far = capacity > HF_SLACK_FAR;
    return hf_footer_parse(ptr, capacity, hf_footer_load(ptr, capacity),
                           may_be_far ? hf_footer_load(ptr, capacity - sizeof(uint64_t)) : 0, out);
}

/* Whether of a damaged footer only the caller's bytes are damaged, as by a string's end that is
 * written one byte too far. */
static inline bool hf_footer_survives(const void *ptr, size_t capacity, struct hf_footer *out)
{
    const uint64_t word = hf_footer_load(ptr, capacity) >> 16 << 16 | HF_FOOTER_CONSTANT;
    return hf_footer_parse(ptr, capacity, word, 0, out) == HF_FOOTER_LIVE;
}

/* Bytes at the end of a live block that the caller may not use. */
static inline size_t hf_footer_size(const void *ptr, size_t capacity)
{
    const size_t slack = hf_footer_load(ptr, capacity) >> HF_LG_SLACK;
    if (slack == HF_SLACK_FAR && capacity > HF_SLACK_FAR)
        return 2 * sizeof(uint64_t);
    return slack < 2 ? (size_t)HF_FOOTER : sizeof(uint64_t);
}

/* The requested size of a live block. */
static inline size_t hf_footer_asked(size_t capacity, struct hf_footer footer)
{
    return capacity - HF_FOOTER - footer.slack;
}

#endif
