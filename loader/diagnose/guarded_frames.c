/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See guarded_frames.h. Reads are guarded (unwind.h): a wrong pointer ends the stack. Owns nothing.
 */
#include "loader/diagnose/guarded_frames.h"

#include "alloc/diagnose/python_stack.h"
#include "alloc/diagnose/unwind.h"
#include "loader/host/python_frames.h"

struct taking {
    struct hf_python_frame *frames;
    volatile size_t count;
};

static void follow(void *argument)
{
    struct taking *taking = argument;
    hf_python_frames_take(HF_PYTHON_BELIEVE, taking->frames, &taking->count);
}

static size_t take(struct hf_python_frame frames[HF_PYTHON_FRAMES_MAX])
{
    struct taking taking = {.frames = frames};
    (void)hf_unwind_guard(follow, &taking);
    return taking.count;
}

struct describing {
    const struct hf_python_frame *frame;
    struct hf_python_place *out;
};

static void read_place(void *argument)
{
    const struct describing *describing = argument;
    hf_python_frame_describe(HF_PYTHON_BELIEVE, describing->frame, describing->out);
}

static void describe(const struct hf_python_frame *frame, struct hf_python_place *out)
{
    struct describing describing = {frame, out};
    out->file[0] = out->function[0] = '\0';
    out->line = 0;
    (void)hf_unwind_guard(read_place, &describing);
}

void hf_guarded_frames_start(const struct hf_cpython *cpython)
{
    if (hf_python_frames_start(cpython, hf_cpython_attached))
        hf_python_stack_offer(&(struct hf_python_stack_functions){take, describe});
}
