/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See linkage_calls.h.
 */
#include "satellites/adopt/hidden/linkage_calls.h"

enum { WORD = 4 };

uint64_t hf_call_slot(const struct hf_image *image, uint64_t address)
{
    enum { ENTRY = 4 };
    uint64_t page = 0, size;
    unsigned to = HF_REGISTER_NONE;
    for (unsigned i = 0; i < ENTRY; i++, address += WORD) {
        struct hf_instruction instruction;
        struct hf_effect effect;
        const unsigned char *bytes = hf_image_at(image, address, &size);
        if (bytes == NULL || !image->code->decode(bytes, size, address, &instruction))
            return 0;
        image->code->effect(bytes, address, &effect);
        if (effect.accesses && effect.base == to)
            return page + (uint64_t)effect.offset;
        if (effect.result == HF_RESULT_PAGE) {
            page = effect.value;
            to = effect.to;
        }
    }
    return 0;
}

/* Whether a function, as far as one can see, leads nowhere but to others that do not return. */
static bool is_endless(const struct hf_image *image, const struct hf_function *function)
{
    enum { LARGE = 4096 };
    uint64_t available;
    const unsigned char *bytes = hf_image_at(image, function->address, &available);
    if (bytes == NULL || available < function->size || function->size > LARGE)
        return false;
    for (uint64_t at = 0; at + WORD <= function->size; at += WORD) {
        struct hf_instruction instruction;
        struct hf_effect effect;
        if (!image->code->decode(bytes + at, WORD, function->address + at, &instruction))
            return false;
        image->code->effect(bytes + at, function->address + at, &effect);
        if (instruction.kind == HF_CODE_END && effect.passes != 0)
            return false;
        if ((instruction.kind == HF_CODE_JUMP || instruction.kind == HF_CODE_BRANCH) &&
            instruction.target - function->address >= function->size &&
            !hf_image_never_returns(image, hf_call_slot(image, instruction.target)))
            return false;
    }
    return !function->gap && function->size >= WORD;
}

bool hf_call_never_returns(const struct hf_image *image, const struct hf_functions *functions,
                           uint64_t target)
{
    const struct hf_function *function = hf_function_at(functions, target);
    if (function != NULL)
        return function->address == target && is_endless(image, function);
    return hf_image_is_linkage(image, target) &&
           hf_image_never_returns(image, hf_call_slot(image, target));
}
