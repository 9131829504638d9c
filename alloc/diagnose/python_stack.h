/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Python frames in the stacks of a report. Where they lie is known to a higher layer
 * (loader/diagnose/python_watch.c), which hands its functions in.
 *
 * Owns those functions, sealed. Any thread, at any stage; no lock, no allocation.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_PYTHON_STACK_H
#define HOMEFREE_ALLOC_DIAGNOSE_PYTHON_STACK_H

#include "alloc/base/python_frame.h"

#include <stdbool.h>
#include <stddef.h>

struct hf_python_stack_functions {
    /* Stores the frames of the calling thread, also of one that has given the GIL up for a call.
     * Returns their number. */
    size_t (*take)(struct hf_python_frame frames[HF_PYTHON_FRAMES_MAX]);
    void (*describe)(const struct hf_python_frame *frame, struct hf_python_place *out);
};

/* Called once, before the interpreter starts. */
void hf_python_stack_offer(const struct hf_python_stack_functions *functions);

/* Whether that was done. */
bool hf_python_stack_is_known(void);

/* What tells the place in Python's code that the calling thread is at from others; 0: none. */
uint64_t hf_python_stack_here(void);

/* The functions above; without a CPython they find nothing. */
size_t hf_python_stack_take(struct hf_python_frame frames[HF_PYTHON_FRAMES_MAX]);
void hf_python_stack_describe(const struct hf_python_frame *frame, struct hf_python_place *out);

#endif
