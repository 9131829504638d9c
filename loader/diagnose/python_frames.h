/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Python frames of the calling thread, read from CPython's structures: nothing of CPython's is
 * called but what names the current thread state, nothing is locked or allocated. CPython 3.9 to
 * 3.14 (python_layouts.def); of other versions and of free-threaded builds no frame is known.
 */
#ifndef HOMEFREE_LOADER_DIAGNOSE_PYTHON_FRAMES_H
#define HOMEFREE_LOADER_DIAGNOSE_PYTHON_FRAMES_H

#include "loader/host/cpython.h"

/* Offers the frames of this CPython for stacks. Called once, before the interpreter starts. */
void hf_python_frames_start(const struct hf_cpython *cpython);

#endif
