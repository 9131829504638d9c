/*
 * Counts the blocks that cross from one object to another, and what each object allocates. Each
 * thread has a table of its own in the report's file (report_file.h), so counting takes no lock and
 * no atomic operation; a table goes to another thread when its thread ends.
 *
 * Any thread, at any stage. A thread that finds its tables full, or that can have none, counts in a
 * shared table with atomic operations; pairs that find no room there are dropped.
 */
#ifndef HOMEFREE_COUNTS_H
#define HOMEFREE_COUNTS_H

#include "alloc/diagnose/report_format.h"

#include <stddef.h>

enum { HF_COUNTS_ROOM = 127 };

struct hf_counts {
    struct hf_report_pair pairs[HF_COUNTS_ROOM];
};

/* Where the calling thread counts the pairs that it met last, by a hash of the pair. */
enum { HF_COUNTS_RECENT = 64 };
struct hf_recent_pair {
    uint32_t key; /* allocated << 16 | freed */
    struct hf_report_pair *pair;
};
extern __thread struct hf_recent_pair hf_counts_recent[HF_COUNTS_RECENT]
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Counts where hf_count() cannot. */
void hf_count_elsewhere(uint16_t allocated, uint16_t freed, size_t bytes);

/* Counts one block of `bytes` bytes; freed: HF_REPORT_ALLOCATED for an allocation. */
static inline void hf_count(uint16_t allocated, uint16_t freed, size_t bytes)
{
    uint32_t key = (uint32_t)allocated << 16 | freed;
    const struct hf_recent_pair *recent =
        &hf_counts_recent[(key * 0x9e3779b1U) >> 26 & (HF_COUNTS_RECENT - 1)];
    if (__builtin_expect(recent->key == key && recent->pair != NULL, 1)) {
        recent->pair->blocks++;
        recent->pair->bytes += bytes;
    } else {
        hf_count_elsewhere(allocated, freed, bytes);
    }
}

/* Registers what ends with a thread. Called once, by the library's constructor. */
void hf_counts_start(void);

/* For the child of fork(2), after hf_report_in_child(): all counts begin at 0. */
void hf_counts_in_child(void);

/* The sum over all tables: blocks and bytes that were allocated. */
void hf_counts_total(uint64_t *blocks, uint64_t *bytes);

#endif
