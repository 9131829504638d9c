/* See python_stack.h. */
#include "alloc/diagnose/python_stack.h"

#include "alloc/base/seal.h"

static union {
    struct hf_python_stack_functions functions;
    char pages[HF_SEAL_SIZE(struct hf_python_stack_functions)];
} table HF_SEALED;
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

size_t hf_python_stack_take(struct hf_python_frame frames[HF_PYTHON_FRAMES_MAX])
{
    return __atomic_load_n(&offered, __ATOMIC_ACQUIRE) ? table.functions.take(frames) : 0;
}

void hf_python_stack_describe(const struct hf_python_frame *frame, struct hf_python_place *out)
{
    table.functions.describe(frame, out);
}
