/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Python frames (loader/host/python_frames.h) for the stacks of a report.
 */
#ifndef HOMEFREE_LOADER_DIAGNOSE_GUARDED_FRAMES_H
#define HOMEFREE_LOADER_DIAGNOSE_GUARDED_FRAMES_H

#include "loader/host/cpython.h"

/* Offers the frames of this CPython for stacks. Called once, before the interpreter starts. */
void hf_guarded_frames_start(const struct hf_cpython *cpython);

#endif
