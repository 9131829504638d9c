/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Small blocks of the debug heap, as far as one lookup each tells what to do with them: of the
 * plain heap for the block, of the recent calls for the rest (recent.h).
 *
 * Any thread, at any stage. Owns nothing, takes no lock.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_SMALL_BLOCKS_H
#define HOMEFREE_ALLOC_DIAGNOSE_SMALL_BLOCKS_H

#include "alloc/diagnose/marking.h"
#include "alloc/spans/lookup.h"

/* The largest small block: up to here, classes are so close that every slack fits into the last
 * word. */
enum { HF_SMALL_MAX = 4096 - HF_FOOTER };

/* A block, with the word at its end. */
struct hf_small {
    size_t class, capacity;
    uint64_t word;
};

/* If the word is intact. */
static inline size_t hf_small_asked(const struct hf_small *block)
{
    return block->capacity - HF_FOOTER - (block->word >> HF_LG_SLACK);
}

/* Whether a pointer is one of the heap, to a page with small blocks. It need not be a block. */
static inline __attribute__((always_inline)) bool hf_small_find(const void *ptr,
                                                                struct hf_small *out)
{
    if (HF_UNLIKELY(!hf_owned(ptr)) || HF_UNLIKELY(!hf_small_at(ptr, &out->class, &out->capacity)))
        return false;
    out->word = hf_footer_load(ptr, out->capacity);
    return true;
}

/* free(3), and functions that state something about the block, if the thread remembers the call in
 * the given place (recent.h). */
static inline __attribute__((always_inline)) bool
hf_small_free(void *ptr, struct hf_stated stated, struct hf_call_site call, size_t place)
{
    struct hf_small block;
    struct hf_recent *recent;
    if (HF_UNLIKELY(!hf_small_find(ptr, &block)) || HF_UNLIKELY(stated.alignment != NULL) ||
        HF_UNLIKELY(!hf_recent_free(ptr, block.word, call, place, &recent)))
        return false;
    const size_t asked = hf_small_asked(&block);
    if (stated.size != NULL && HF_UNLIKELY(*stated.size != asked))
        return false;
    hf_count_again(recent->pair, asked);
    hf_footer_write_freed(ptr, block.capacity, recent->freed);
    if (place != 0)
        hf_recent_prefer(recent, ptr);
    hf_heap_return(ptr);
    return true;
}

#endif
