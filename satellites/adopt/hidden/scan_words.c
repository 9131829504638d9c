/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See scan_words.h. Calls and jumps are found word by word. A function in which some instruction
 * forms an address, or a page, in front of a target is followed; see flow.h.
 */
#include "satellites/adopt/hidden/scan_words.h"

#include "satellites/adopt/hidden/flow.h"
#include "satellites/adopt/hidden/linkage_calls.h"

#include <errno.h>

enum {
    WORD = 4,
    PAGE = 4096,
    /* How far constants lead from one object to another, and how far from its page it is: the
     * section anchors of compilers reach 4095 bytes forwards and 256 backwards. */
    BEHIND = 4096,
    AHEAD = 3 * 4096
};

struct words {
    const struct hf_image *image;
    const struct hf_functions *functions;
    const struct hf_targets *targets;
    hf_scan_visitor *visit;
    void *context;
    const struct hf_function *function; /* the last one that was followed */
    uint64_t where;
    bool ended, unknown;
};

static bool matters(uint64_t address, void *context)
{
    const struct words *words = context;
    return hf_targets_has(words->targets, address < BEHIND ? 0 : address - BEHIND, BEHIND + AHEAD);
}

static bool found(struct words *words, uint64_t where, uint64_t target)
{
    if (hf_targets_has(words->targets, target, 1))
        words->ended = !words->visit(where, target, words->function, words->context);
    return !words->ended;
}

/* Whoever has a part of an object can have all of it. */
static bool found_address(const struct hf_flow_reference *reference, void *context)
{
    struct words *words = context;
    words->where = reference->where;
    if (reference->page) {
        words->unknown = hf_targets_has(words->targets, reference->target, PAGE);
        return !words->unknown;
    }
    const struct hf_named *object = hf_object_at(words->functions, reference->target);
    return found(words, reference->where, reference->target) &&
           (object == NULL || object->address == reference->target ||
            found(words, reference->where, object->address));
}

static int follow(struct words *words, const struct hf_function *function)
{
    const struct hf_flow flow = {words->image, words->functions, matters, found_address, words};
    if (function == words->function)
        return 0;
    words->function = function;
    words->where = function->address;
    const int error = hf_flow_follow(&flow, function);
    return error != 0 ? error : words->unknown ? -ENOTSUP : 0;
}

/* A table's code jumps through its slot. */
static void look_at_linkage(struct words *words, uint64_t address)
{
    const uint64_t slot = hf_call_slot(words->image, address);
    words->function = NULL;
    if (slot != 0)
        (void)found(words, address, slot);
}

/*
 * Whether the value that an instruction forms has gone after a few more, which all run, and led to
 * no target. Most have: that a slot of a global offset table is loaded.
 */
static bool is_gone(struct words *words, uint64_t address, const struct hf_effect *forming)
{
    enum { FEW = 16 };
    const struct hf_code *code = words->image->code;
    const uint32_t set = UINT32_C(1) << forming->to;
    for (unsigned i = 0; i < FEW; i++) {
        struct hf_instruction instruction;
        struct hf_effect effect;
        uint64_t size;
        address += WORD;
        const unsigned char *bytes = hf_image_at(words->image, address, &size);
        if (bytes == NULL || !code->decode(bytes, size, address, &instruction) ||
            instruction.kind != HF_CODE_OTHER)
            return false;
        code->effect(bytes, address, &effect);
        if (((effect.reads | effect.hides | effect.sources) & set) != 0 ||
            effect.stored[0] == forming->to || effect.stored[1] == forming->to ||
            effect.passes != 0 || effect.advances)
            return false;
        const uint64_t to = forming->value + (uint64_t)effect.offset;
        const bool exact = effect.accesses || hf_image_is_slot(words->image, to);
        if (effect.base == forming->to &&
            (exact ? hf_targets_has(words->targets, to, 1) : matters(to, words)))
            return false;
        if ((effect.changes & set) != 0)
            return true;
    }
    return false;
}

static int look_at(struct words *words, uint64_t address, const struct hf_instruction *instruction)
{
    const uint64_t direct = instruction->target != 0 ? instruction->target : instruction->operand;
    if (direct != 0 && hf_targets_has(words->targets, direct, 1) &&
        (instruction->target == 0 || !hf_targets_is_except(words->targets, direct))) {
        const struct hf_function *from = hf_function_at(words->functions, address);
        words->ended = (from == NULL || direct - from->address >= from->size) &&
                       !words->visit(address, direct, from, words->context);
    }
    /* A form of several instructions with a place in this page, if it has one. */
    if (!instruction->forms)
        return 0;
    struct hf_effect effect;
    uint64_t size;
    words->image->code->effect(hf_image_at(words->image, address, &size), address, &effect);
    if (!matters(effect.value, words))
        return 0;
    const struct hf_function *function = hf_function_at(words->functions, address);
    if (function != NULL && (function == words->function || effect.to == HF_REGISTER_NONE ||
                             is_gone(words, address, &effect)))
        return 0;
    if (function != NULL)
        return follow(words, function);
    look_at_linkage(words, address);
    return 0;
}

int hf_scan_words(const struct hf_image *image, const struct hf_functions *functions,
                  const struct hf_targets *targets, hf_scan_visitor *visit, void *context,
                  uint64_t *where)
{
    struct words words = {image, functions, targets, visit, context, NULL, 0, false, false};
    for (size_t i = 0; i < image->stretches_count; i++) {
        const struct hf_stretch *stretch = &image->stretches[i];
        if (!stretch->code)
            continue;
        for (uint64_t at = -stretch->address % WORD;
             !words.ended && at + WORD <= stretch->bytes_size; at += WORD) {
            struct hf_instruction instruction;
            const uint64_t address = stretch->address + at;
            if (!image->code->decode(stretch->bytes + at, WORD, address, &instruction))
                continue;
            const int error = look_at(&words, address, &instruction);
            if (error != 0) {
                *where = words.where;
                return error;
            }
        }
    }
    return 0;
}
