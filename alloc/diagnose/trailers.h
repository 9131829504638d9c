/*
 * Trailers: the last eight bytes of every block of a diagnosed heap. They tell which site allocated
 * the block, by which kind of function and with which size, and after the free which site freed it.
 *
 *   63      44 43  40 39          16 15     0
 *   site       kind   slack          check      of a live block
 *   site       15     freeing site   check      of a freed one
 *
 * `slack` is the room between the requested size and the trailer, or SLACK_UNKNOWN if there is
 * more. `check` depends on the address and on the other bits, so that overwritten bytes, and an
 * address that is no block's, are recognised.
 *
 * Owns nothing. A trailer belongs to whoever owns its block.
 */
#ifndef HOMEFREE_TRAILERS_H
#define HOMEFREE_TRAILERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { HF_TRAILER = 8 };

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

#define HF_SLACK_UNKNOWN 0xffffffU

enum hf_trailer_state {
    HF_TRAILER_LIVE,
    HF_TRAILER_FREED,
    HF_TRAILER_DAMAGED /* or the address is not a block's */
};

struct hf_trailer {
    uint32_t site;
    enum hf_block_kind kind;
    uint32_t slack; /* the freeing site of a freed block */
};

static inline uint64_t hf_trailer_check(const void *ptr, uint64_t rest)
{
    return ((rest ^ (uintptr_t)ptr) * 0x9e3779b97f4a7c15) >> 48;
}

/* room: the block's size, trailer included. */
static inline void hf_trailer_write(void *ptr, size_t room, struct hf_trailer trailer)
{
    uint64_t rest =
        (uint64_t)trailer.site << 28 | (uint64_t)trailer.kind << 24 | (uint64_t)trailer.slack;
    uint64_t word = rest << 16 | hf_trailer_check(ptr, rest);
    memcpy((char *)ptr + room - sizeof word, &word, sizeof word);
}

/* The bytes need not be a trailer. */
static inline enum hf_trailer_state hf_trailer_read(const void *ptr, size_t room,
                                                    struct hf_trailer *out)
{
    uint64_t word;
    memcpy(&word, (const char *)ptr + room - sizeof word, sizeof word);
    out->site = (uint32_t)(word >> 44);
    out->kind = (enum hf_block_kind)(word >> 40 & 15);
    out->slack = (uint32_t)(word >> 16 & 0xffffff);
    if ((word & 0xffff) != hf_trailer_check(ptr, word >> 16))
        return HF_TRAILER_DAMAGED;
    return out->kind == HF_BLOCK_FREED ? HF_TRAILER_FREED : HF_TRAILER_LIVE;
}

static inline uint32_t hf_trailer_slack(size_t room, size_t asked)
{
    size_t slack = room - HF_TRAILER - asked;
    return slack < HF_SLACK_UNKNOWN ? (uint32_t)slack : HF_SLACK_UNKNOWN;
}

/* The requested size of a live block; SIZE_MAX if it is unknown. */
static inline size_t hf_trailer_asked(size_t room, struct hf_trailer trailer)
{
    return trailer.slack != HF_SLACK_UNKNOWN ? room - HF_TRAILER - trailer.slack : SIZE_MAX;
}

#endif
