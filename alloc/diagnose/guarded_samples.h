/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guarded samples: blocks that end at a page which nobody may touch, and whose own pages nobody may
 * touch once they are freed. An access to either is a fault, which signals.c judges.
 *
 * They lie in slots of a pool, which the region lends (owner/hosted.h): each has pages for a block
 * and then the guard. A block has no footer; what is known of it lies in the pool's table. Slots
 * of freed blocks are used again as late as possible: first come the unused ones, then the one that
 * was freed first.
 *
 * Owns the pool: at most 8 MiB of touched memory, and about 900 mappings of the process, or 3000.
 * Takes no lock; any thread, at any stage, in signal handlers. A thread that forks while another
 * one frees a guarded sample leaves that slot unusable in the child.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_GUARDED_SAMPLES_H
#define HOMEFREE_ALLOC_DIAGNOSE_GUARDED_SAMPLES_H

#include "alloc/diagnose/event.h"
#include "alloc/diagnose/footers.h"
#include "alloc/diagnose/sites.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether an address lies in the pool. Two loads. */
extern uintptr_t hf_guarded_base __attribute__((visibility("hidden")));
extern size_t hf_guarded_size __attribute__((visibility("hidden")));
static inline bool hf_guarded_holds(const void *ptr)
{
    const size_t size = __atomic_load_n(&hf_guarded_size, __ATOMIC_ACQUIRE);
    return (uintptr_t)ptr - hf_guarded_base < size;
}

/* Makes guarded samples possible. functions: of the pool as a hosted allocator. is_often: that most
 * allocations are sampled is worth three mappings for each slot. */
struct hf_hosted;
void hf_guarded_start(const struct hf_hosted *functions, bool is_often);

/* Gives the pool's mappings back, because the process has none left, or is about to forbid system
 * calls: its blocks stay, and nothing more is sampled or noticed. Returns whether there were any.
 */
bool hf_guarded_yield(void);

/* Whether a slot is left. A load. */
bool hf_guarded_has_capacity(void);

/* A guarded sample, which is not counted; NULL if there cannot be one now, which is no error.
 * alignment: 0 for malloc's. The contents are arbitrary. */
void *hf_guarded_allocate(size_t alignment, size_t size, struct hf_site site,
                          enum hf_block_kind kind);

/* The pointers below lie in the pool. Frees a block as hf_debug_heap_free() does, faults included.
 */
void hf_guarded_free(void *ptr, struct hf_stated stated, struct hf_call_site call);
/* Whether realloc may go on with a block, after its kind was checked. Records a fault otherwise. */
bool hf_guarded_may_resize(void *ptr, struct hf_call_site call);
/* Makes another function the allocator. */
void hf_guarded_claim(void *ptr, struct hf_site site, enum hf_block_kind kind);
/* The requested size and the first byte of the live block that holds an address; 0 and NULL if
 * there is none. A block of no bytes counts as one byte. */
size_t hf_guarded_block(const void *ptr, const void **block);
/* The first byte of the live block that holds an address, what its footer would tell, and the
 * requested size; NULL if there is none. */
const void *hf_guarded_described(const void *ptr, struct hf_footer *footer, size_t *size);
/* The requested size of a live block, by its first byte; otherwise records a fault, and 0. */
size_t hf_guarded_measure(const void *ptr, struct hf_call_site call);

/* Visits the blocks in the pool, live ones and those that were freed, as if they had footers. */
void hf_guarded_each(void (*visit)(const void *block, size_t capacity, struct hf_footer footer,
                                   bool is_live));

/* ---- for signals.c ---- */

enum hf_guarded_verdict {
    HF_GUARDED_STRANGE, /* no block is or was there */
    HF_GUARDED_FINE,    /* the access can be repeated */
    HF_GUARDED_FREED,   /* it touched a freed block */
    HF_GUARDED_OUTSIDE  /* it touched what lies around a live block */
};

/* Judges an access that faulted. `event` receives the block. */
enum hf_guarded_verdict hf_guarded_judge(const void *address, struct hf_event *event);

/* Counts what this unit does to the protection of its pages. */
uint64_t hf_guarded_changes(void);

/* Lets accesses to the slot pass from now on. A freed block's slot is not used again. False if the
 * system refuses. */
bool hf_guarded_open(const void *address);

#endif
