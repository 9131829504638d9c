/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The stack of the call that allocates: taken without a lock, and kept in the book. Owns where
 * homefree's own code lies, written once. Any thread, at any stage, in signal handlers: no
 * allocation.
 */
#ifndef HOMEFREE_SATELLITES_PROFILE_PROFILE_STACK_H
#define HOMEFREE_SATELLITES_PROFILE_PROFILE_STACK_H

#include "alloc/base/python_frame.h"
#include "satellites/profile/book.h"

struct hf_profile_stack {
    size_t count, python_count;
    uint64_t frames[HF_BOOK_FRAMES_MAX];
    struct hf_python_frame python[HF_PYTHON_FRAMES_MAX];
};

/* Before the first stack. */
void hf_profile_stack_start(void);

/* A profile begins: looks for a CPython, if none is known yet. */
void hf_profile_stack_begin(void);

/* Its book is empty; with the lock of profile_samples.h. */
void hf_profile_stack_forget(void);

void hf_profile_stack_take(struct hf_profile_stack *out);

/* A reference to it in the book, with the lock of profile_samples.h; 0 if there is no room. */
uint32_t hf_profile_stack_keep(const struct hf_profile_stack *stack);

#endif
