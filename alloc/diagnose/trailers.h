/*
 * Trailers: the last six bytes of every block of a diagnosed heap. They tell which site allocated
 * the block, by which kind of function and with which size, and after the free which site freed it.
 *
 *   63      54 53  36 35  32 31   16 15           0
 *   slack      site   kind   check   the caller's or   of a live block
 *                                    a constant
 *   freeing    site   15     check   freeing site      of a freed one, which has eight bytes
 *
 * `slack` is the room between the requested size and the trailer. If it is two bytes or more, they
 * hold the constant; if it is SLACK_FAR or more, the eight bytes in front of them hold the slack.
 * `check` depends on the address, the site and the kind, so that an address that is no block's and
 * overwritten bytes are recognised. It and the constant come first in memory, where writing past
 * the requested size changes them.
 *
 * Owns nothing. A trailer belongs to whoever owns its block.
 */
#ifndef HOMEFREE_TRAILERS_H
#define HOMEFREE_TRAILERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    HF_TRAILER = 6,
    HF_TRAILER_SITES = 1 << 18, /* numbers of sites that fit */
    HF_LG_SLACK = 54,           /* where the slack begins */
    HF_SLACK_BITS = 64 - HF_LG_SLACK,
    HF_SLACK_FAR = (1 << HF_SLACK_BITS) - 1,
    HF_TRAILER_CONSTANT = 0xe9d5
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

enum hf_trailer_state {
    HF_TRAILER_LIVE,
    HF_TRAILER_FREED,
    HF_TRAILER_DAMAGED /* or the address is not a block's */
};

struct hf_trailer {
    uint32_t site;
    enum hf_block_kind kind;
    size_t slack; /* the freeing site of a freed block */
};

/* ---- the word at the end of a block ---- */

/* The word but for the slack and what the block's address changes. */
static inline uint64_t hf_trailer_base(uint32_t site, enum hf_block_kind kind)
{
    const uint32_t both = site << 4 | (uint32_t)kind;
    return (uint64_t)both << 32 | (both * 0x9e3779b1U & 0xffff0000) | HF_TRAILER_CONSTANT;
}

/* What the block's address changes. */
static inline uint64_t hf_trailer_place(const void *ptr)
{
    return (uint32_t)((uintptr_t)ptr << 13) & 0xffff0000;
}

/* What a slack up to SLACK_FAR adds. */
static inline uint64_t hf_trailer_slack(size_t slack)
{
    return slack << HF_LG_SLACK;
}

/* Whether the caller's bytes are as they must be. */
static inline bool hf_trailer_constant(uint64_t word)
{
    return __builtin_expect((uint16_t)word == HF_TRAILER_CONSTANT, 1) || word >> HF_LG_SLACK < 2;
}

/* The base without the caller's bytes. If it is that of a site and a kind, the word is a live
 * block's, and intact. */
static inline uint64_t hf_trailer_identity(const void *ptr, uint64_t word)
{
    return (word ^ hf_trailer_place(ptr)) << HF_SLACK_BITS >> (HF_SLACK_BITS + 16);
}
static inline uint64_t hf_trailer_identity_of(uint32_t site, enum hf_block_kind kind)
{
    return hf_trailer_base(site, kind) >> 16;
}

/* The word of a freed block, but for what its address changes. */
static inline uint64_t hf_trailer_freed(uint32_t site, uint32_t freed_site)
{
    return hf_trailer_identity_of(site, HF_BLOCK_FREED) << 16 |
           hf_trailer_slack(freed_site & HF_SLACK_FAR) | freed_site >> HF_SLACK_BITS;
}

static inline uint64_t hf_trailer_load(const void *ptr, size_t room)
{
    uint64_t word;
    memcpy(&word, (const char *)ptr + room - sizeof word, sizeof word);
    return word;
}

/* All eight bytes, in a block that nobody uses. */
static inline void hf_trailer_store(void *ptr, size_t room, uint64_t word)
{
    memcpy((char *)ptr + room - sizeof word, &word, sizeof word);
}

/* ---- the whole ---- */

/* What a far slack changes, so that such a block has another identity. */
enum { HF_TRAILER_FAR = 1 << 30 };

/* Writes a live block's, and leaves what the caller may use alone. room: the block's size, trailer
 * included. base: from hf_trailer_base(). */
static inline void hf_trailer_write_live(void *ptr, size_t room, uint64_t base, size_t slack)
{
    uint64_t word = base ^ hf_trailer_place(ptr);
    char *end = (char *)ptr + room;
    if (slack < 2) {
        word = (word | hf_trailer_slack(slack)) >> 16;
        memcpy(end - HF_TRAILER, &word, HF_TRAILER);
        return;
    }
    if (slack < HF_SLACK_FAR) {
        word |= hf_trailer_slack(slack);
    } else {
        word = (word | hf_trailer_slack(HF_SLACK_FAR)) ^ HF_TRAILER_FAR;
        memcpy(end - sizeof word - sizeof slack, &slack, sizeof slack);
    }
    hf_trailer_store(ptr, room, word);
}

static inline void hf_trailer_write_freed(void *ptr, size_t room, uint64_t freed)
{
    hf_trailer_store(ptr, room, freed ^ hf_trailer_place(ptr));
}

/* Takes a trailer apart: the word at the block's end, and the one in front of it, which counts if
 * the slack is far. The words need not be a trailer. */
static inline enum hf_trailer_state hf_trailer_parse(const void *ptr, size_t room, uint64_t word,
                                                     uint64_t before, struct hf_trailer *out)
{
    out->site = word >> 36 & (HF_TRAILER_SITES - 1);
    out->kind = (enum hf_block_kind)(word >> 32 & 15);
    out->slack = word >> HF_LG_SLACK;
    if (out->kind == HF_BLOCK_FREED) {
        out->slack |= (word & 0xffff) << HF_SLACK_BITS;
    } else if (out->slack == HF_SLACK_FAR && room > HF_SLACK_FAR) {
        word ^= HF_TRAILER_FAR;
        out->slack = before;
    }
    if (hf_trailer_identity(ptr, word) != hf_trailer_identity_of(out->site, out->kind))
        return HF_TRAILER_DAMAGED;
    if (out->kind == HF_BLOCK_FREED)
        return out->slack < HF_TRAILER_SITES ? HF_TRAILER_FREED : HF_TRAILER_DAMAGED;
    return out->slack <= room - HF_TRAILER && hf_trailer_constant(word) ? HF_TRAILER_LIVE
                                                                        : HF_TRAILER_DAMAGED;
}

/* The bytes need not be a trailer. */
static inline enum hf_trailer_state hf_trailer_read(const void *ptr, size_t room,
                                                    struct hf_trailer *out)
{
    const bool may_be_far = room > HF_SLACK_FAR;
    return hf_trailer_parse(ptr, room, hf_trailer_load(ptr, room),
                            may_be_far ? hf_trailer_load(ptr, room - sizeof(uint64_t)) : 0, out);
}

/* Whether of a damaged trailer only the caller's bytes are damaged, as by a string's end that is
 * written one byte too far. */
static inline bool hf_trailer_survives(const void *ptr, size_t room, struct hf_trailer *out)
{
    const uint64_t word = hf_trailer_load(ptr, room) >> 16 << 16 | HF_TRAILER_CONSTANT;
    return hf_trailer_parse(ptr, room, word, 0, out) == HF_TRAILER_LIVE;
}

/* Bytes at the end of a live block that the caller may not use. */
static inline size_t hf_trailer_size(const void *ptr, size_t room)
{
    const size_t slack = hf_trailer_load(ptr, room) >> HF_LG_SLACK;
    if (slack == HF_SLACK_FAR && room > HF_SLACK_FAR)
        return 2 * sizeof(uint64_t);
    return slack < 2 ? (size_t)HF_TRAILER : sizeof(uint64_t);
}

/* The requested size of a live block. */
static inline size_t hf_trailer_asked(size_t room, struct hf_trailer trailer)
{
    return room - HF_TRAILER - trailer.slack;
}

#endif
