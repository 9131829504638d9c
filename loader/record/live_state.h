/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a process tells about itself to `homefree doctor --pid`, which reads it from outside.
 *
 * A signal that a handler of ours answers would be the other way. It would run code in the process
 * at a moment that nobody chose, take a signal number from the program, interrupt its system calls,
 * and be one more thing for others to send. CPython's sys.remote_exec() runs code as well, exists
 * from 3.14 on, and reaches nothing but Python. Here nothing runs in the process and nothing is
 * opened: libhomefree exports one constant that says where its tables lie. Whoever reads it needs
 * the permission to read the process's memory, which the kernel grants to debuggers alone, and who
 * has that permission learns nothing new. The tables are those that routing works with: stubs find
 * their originals in them without a lock, so they are consistent at any moment.
 *
 * One table is written to from outside: what `homefree trim --pid` asks for, and only in a process
 * that has a thread which looks there (live_trim.h).
 *
 * A reader checks the magic, version and size, bounds every number, and trusts nothing: the process
 * is hostile.
 *
 * Owns the constant hf_live_state. Read-only (RELRO).
 */
#ifndef HOMEFREE_LOADER_RECORD_LIVE_STATE_H
#define HOMEFREE_LOADER_RECORD_LIVE_STATE_H

#include "alloc/base/live_tables.h"
#include "loader/record/live_trim.h"

#define HF_LIVE_MAGIC   "homefree live\n"
#define HF_LIVE_VERSION 4
#define HF_LIVE_SYMBOL  "hf_live_state"
/* The record by which copies find each other, and which is the heap (alloc/heap/instance.h). */
#define HF_LIVE_INSTANCE "hf_instance_record"

struct hf_live_state {
    char magic[16];
    uint32_t version, size; /* of this struct */
    const uint64_t *route;  /* 0: routing is off */
    /* In this copy's HF_LIVE_INSTANCE: where its state is, four bytes, with the value by which the
     * copy is the heap; and the bytes of the region, eight. */
    uint64_t instance_state, instance_is_heap, instance_region;
    const struct hf_live_stubs *stubs;
    const struct hf_live_foreign *foreign;
    const struct hf_live_blocks *blocks;
    const struct hf_live_profile *profile;
    struct hf_live_trim *trim; /* live_trim.h */
};

/* Where requests to trim are written. */
extern struct hf_live_trim hf_live_trim __attribute__((visibility("hidden")));

#endif
