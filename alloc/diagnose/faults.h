/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults: judges a free by what is known of its block. debug_heap.c calls it; findings.h records.
 *
 * Any thread, at any stage; owns nothing. Looking for the owner of a pointer that no allocator is
 * known for reads /proc/self/maps.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_FAULTS_H
#define HOMEFREE_ALLOC_DIAGNOSE_FAULTS_H

#include "alloc/diagnose/event.h"
#include "alloc/diagnose/footers.h"

#include <stdbool.h>
#include <stdint.h>

/* Whether a function may free blocks of a kind. */
extern const uint8_t hf_fault_frees[HF_FUNCTION_COUNT] __attribute__((visibility("hidden")));
static inline bool hf_fault_free_fits(enum hf_block_kind kind, enum hf_report_function function)
{
    return (hf_fault_frees[function] >> kind & 1) != 0;
}

/* The function of another allocator's interface that has this name (shim/functions.def). */
enum hf_report_function hf_fault_function(const char *name);

/* Records a free that does not fit its block: by its kind, the stated size or the alignment. */
void hf_fault_check(const void *ptr, struct hf_footer footer, size_t asked, struct hf_stated stated,
                    enum hf_report_function function, uint32_t freed_site);

/* Handles a pointer of the region that has no footer of a live block. capacity: from
 * hf_heap_capacity(). Returns whether the plain heap must free it all the same. */
bool hf_fault_no_block(const void *ptr, size_t capacity, uint32_t freed_site);

/* Handles a pointer outside the region that is freed or resized. Returns whether the call may go
 * on. */
bool hf_fault_foreign(const void *ptr, struct hf_call_site call);

#endif
