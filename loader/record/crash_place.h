/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Attributes a crash to an object. May be called in a signal handler; see crash_place.c.
 */
#ifndef HOMEFREE_LOADER_RECORD_CRASH_PLACE_H
#define HOMEFREE_LOADER_RECORD_CRASH_PLACE_H

#include "alloc/base/call_frames.h"

#include <link.h>
#include <stdint.h>

/* The object whose code was running and the object that called it, skipping libc, the C++ runtime,
 * the dynamic linker and homefree. Both are NULL if none was found, or if libc or homefree ended
 * the process with a message of their own. The stack is read without faulting. Where a function
 * has no call frame information, or the stack is damaged, every word further out that looks like a
 * return address is taken for one, and the result is a guess. */
struct hf_doctor_place {
    const struct link_map *object, *caller;
    uintptr_t code; /* address in `object` */
};

/* What a signal interrupted. */
struct hf_doctor_crash {
    struct hf_frame frame;
    bool freeing; /* alloc/owner/release_crash.h */
};

/* crash: the frame that a signal interrupted. */
void hf_doctor_find_place(const struct hf_frame *crash, struct hf_doctor_place *out);

/* The same, also after such a message. */
void hf_doctor_search_place(const struct hf_frame *crash, struct hf_doctor_place *out);

#endif
