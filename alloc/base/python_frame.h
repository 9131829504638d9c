/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames of Python functions, as whoever records stacks has them. Owns nothing.
 */
#ifndef HOMEFREE_ALLOC_BASE_PYTHON_FRAME_H
#define HOMEFREE_ALLOC_BASE_PYTHON_FRAME_H

#include <stdint.h>

enum { HF_PYTHON_FRAMES_MAX = 32, HF_PYTHON_FILE_MAX = 512, HF_PYTHON_FUNCTION_MAX = 128 };

/* A frame of the calling thread, innermost first. Stays valid as long as the frame runs. */
struct hf_python_frame {
    const void *code;
    int64_t position; /* of the instruction, in bytes from the code's first one */
};

/* Texts in UTF-8, cut short if they are longer; "" if unknown. */
struct hf_python_place {
    char file[HF_PYTHON_FILE_MAX], function[HF_PYTHON_FUNCTION_MAX];
    uint32_t line; /* 0: unknown */
};

#endif
