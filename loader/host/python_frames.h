/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Python frames of the calling thread, read from CPython's structures: nothing of CPython's is
 * called but what names the current thread state, nothing is locked or allocated. CPython 3.9 to
 * 3.15 (python_layouts.def); of other versions no frame is known.
 *
 * Not in libhomefree, but in diagnostics mode and in the satellite that has profiles.
 */
#ifndef HOMEFREE_LOADER_HOST_PYTHON_FRAMES_H
#define HOMEFREE_LOADER_HOST_PYTHON_FRAMES_H

#include "alloc/base/python_frame.h"
#include "loader/host/cpython.h"

#include <stddef.h>

/* Says which CPython it is, and how to ask whether the calling thread is attached to it
 * (hf_cpython_attached); once, and before the functions below. Returns whether its frames are
 * known. */
bool hf_python_frames_start(const struct hf_cpython *cpython,
                            bool (*attached)(const struct hf_cpython *cpython));

/* How memory is read whose pointers may be wrong: */
enum hf_python_reading {
    HF_PYTHON_BELIEVE, /* as it is: the caller notices faults */
    HF_PYTHON_ASK      /* after the kernel has said that the page is there */
};

/* Stores the frames of the calling thread, also of one that has given the GIL up for a call.
 * Whoever notices a fault has the frames up to then: so `count` grows by one at a time. */
void hf_python_frames_take(enum hf_python_reading reading,
                           struct hf_python_frame frames[HF_PYTHON_FRAMES_MAX],
                           volatile size_t *count);

/* What tells the frame's place from others, whatever lay at its addresses before. */
uint64_t hf_python_frame_key(enum hf_python_reading reading, const struct hf_python_frame *frame);

/* The frame's place; `out` is complete at every moment. */
void hf_python_frame_describe(enum hf_python_reading reading, const struct hf_python_frame *frame,
                              struct hf_python_place *out);

#endif
