/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes the record of a running process (loader/record/process_record.h) from outside: the facts
 * that libhomefree would write if it were asked, as far as its mappings, its files and its memory
 * show them. Finds its heap. Nothing runs in the process.
 *
 * - The objects, the allocators that they define and the functions that they import come from their
 *   files, and need no more than /proc/PID/maps.
 * - Where their slots lead is read from the process's memory, and so is what routing has made of
 *   them: libhomefree says where its tables lie (loader/record/live_state.h).
 *
 * Constraint: the process is hostile. Its tables may say anything; sizes are checked and numbers
 * bounded, and what contradicts itself is left out.
 *
 * Owns: nothing between calls. One thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_DOCTOR_DOCTOR_LIVE_H
#define HOMEFREE_LOADER_COMMAND_DOCTOR_DOCTOR_LIVE_H

#include "loader/command/live/live_heap.h"
#include "loader/command/live/live_profile.h"

/* Returns a descriptor of the record, in memory; or a negative errno with `why` set. */
int hf_doctor_live_record(const struct hf_live_process *process, const char **why);

/* Is called for pages that another allocator, in an object, has mapped. */
typedef void hf_doctor_pages_visitor(void *context, const char *allocator, const char *object,
                                     uint64_t start, uint64_t end);

/* Reads the process's heap: first calls `pages`, then `visit`; both may be NULL. False with `why`
 * set. */
bool hf_doctor_live_heap(const struct hf_live_process *process, hf_doctor_pages_visitor *pages,
                         hf_live_heap_visitor *visit, void *context, struct hf_live_heap *out,
                         const char **why);

/* Reads the profile of its heap. False with `why` set. */
bool hf_doctor_live_profile(const struct hf_live_process *process, hf_live_profile_visitor *visit,
                            void *context, struct hf_live_profiled *out, const char **why);

/* Where the process takes requests to trim (loader/record/live_trim.h); 0 with `why` set. */
uint64_t hf_doctor_live_trim(const struct hf_live_process *process, const char **why);

#endif
