/* SPDX-License-Identifier: BSD-2-Clause */
/* See python_stack.h. */
#include "alloc/diagnose/python_stack.h"

#include "alloc/base/seal.h"

static HF_SEALED_UNION(struct hf_python_stack_functions, functions) table HF_SEALED;
static bool offered;

void hf_python_stack_offer(const struct hf_python_stack_functions *functions)
{
    struct hf_seal seal;
    if (!hf_seal_open(&seal))
        return;
    table.functions = *functions;
    hf_seal_close(&seal);
    __atomic_store_n(&offered, true, __ATOMIC_RELEASE);
}

bool hf_python_stack_is_known(void)
{
    return __atomic_load_n(&offered, __ATOMIC_ACQUIRE);
}

size_t hf_python_stack_take(struct hf_python_frame frames[HF_PYTHON_FRAMES_MAX])
{
    return hf_python_stack_is_known() ? table.functions.take(frames) : 0;
}

uint64_t hf_python_stack_here(void)
{
    struct hf_python_frame frames[HF_PYTHON_FRAMES_MAX];
    return hf_python_stack_take(frames) != 0
               ? ((uintptr_t)frames[0].code ^ (uint64_t)frames[0].position << 48) | 1
               : 0;
}

void hf_python_stack_describe(const struct hf_python_frame *frame, struct hf_python_place *out)
{
    table.functions.describe(frame, out);
}
