/*
 * See scan.h.
 */
#include "loader/hidden/scan.h"

#include "loader/hidden/code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 16, DISPLACEMENT = 4 };

/* ---- the set of targets --------------------------------------------------------------------- */

int hf_targets_open(struct hf_targets *targets, uint64_t first, uint64_t size)
{
    targets->first = first / PIECE * PIECE;
    targets->size = size + (first - targets->first);
    targets->bits = calloc(targets->size / PIECE / 8 + 1, 1);
    return targets->bits != NULL ? 0 : -ENOMEM;
}

void hf_targets_close(struct hf_targets *targets)
{
    free(targets->bits);
    *targets = (struct hf_targets){0};
}

void hf_targets_add(struct hf_targets *targets, uint64_t address, uint64_t size)
{
    const uint64_t from = address - targets->first;
    if (from >= targets->size)
        return;
    const uint64_t most = targets->size - from;
    const uint64_t last = from + (size == 0 ? 0 : size < most ? size - 1 : most - 1);
    for (uint64_t piece = from / PIECE; piece <= last / PIECE; piece++)
        targets->bits[piece / 8] |= (uint8_t)(1U << piece % 8);
}

static bool has(const struct hf_targets *targets, uint64_t address)
{
    const uint64_t from = address - targets->first;
    return from < targets->size &&
           (targets->bits[from / PIECE / 8] >> (from / PIECE % 8) & 1) != 0;
}

/* ---- the scan ------------------------------------------------------------------------------- */

/* Decodes one function after the other, as far as references in it are to be confirmed. */
struct walk {
    const struct hf_image *image;
    const struct hf_function *function;
    struct hf_instruction instruction;
    uint64_t at; /* of the instruction, which ends at `next` */
    uint64_t next;
    bool broken; /* the rest of the function cannot be decoded */
};

/* Decodes up to the instruction in which an address lies. */
static void walk_to(struct walk *walk, const struct hf_function *function, uint64_t address)
{
    if (walk->function != function) {
        walk->function = function;
        walk->next = function->address;
        walk->broken = false;
    }
    while (!walk->broken && walk->next <= address) {
        uint64_t size;
        const unsigned char *bytes = hf_image_at(walk->image, walk->next, &size);
        const uint64_t rest = function->address + function->size - walk->next;
        if (size > rest)
            size = rest;
        walk->at = walk->next;
        walk->broken =
            bytes == NULL || !hf_code_decode(bytes, size, walk->next, &walk->instruction);
        walk->next += walk->instruction.length;
    }
}

/* Whether the four bytes at `where` are an instruction's reference to `target`. */
static bool is_reference(const struct walk *walk, uint64_t where, uint64_t target)
{
    if (walk->broken || where < walk->at || where + DISPLACEMENT > walk->next)
        return false;
    const struct hf_instruction *instruction = &walk->instruction;
    return instruction->operand == target ||
           (instruction->kind != HF_CODE_OTHER && instruction->target == target);
}

int hf_scan(const struct hf_image *image, const struct hf_functions *functions,
            const struct hf_targets *targets, hf_scan_visitor *visit, void *context,
            uint64_t *where)
{
    struct walk walk = {.image = image};
    for (size_t i = 0; i < image->stretches_count; i++) {
        const struct hf_stretch *stretch = &image->stretches[i];
        if (!stretch->code)
            continue;
        for (uint64_t at = 1; at + DISPLACEMENT <= stretch->bytes_size; at++) {
            int32_t displacement;
            if (!hf_code_may_refer(stretch->bytes, at))
                continue;
            memcpy(&displacement, stretch->bytes + at, sizeof displacement);
            const uint64_t here = stretch->address + at;
            const uint64_t base = here + DISPLACEMENT + (uint64_t)(int64_t)displacement;
            /* An immediate value of up to four bytes may follow the displacement of an operand. */
            const bool near = has(targets, base) || has(targets, base + 4);
            if (!near)
                continue;
            const struct hf_function *function = hf_function_at(functions, here);
            if (function == NULL) {
                if (has(targets, base) && !visit(here, base, NULL, context))
                    return 0;
                continue;
            }
            walk_to(&walk, function, here);
            if (walk.broken) {
                *where = walk.at;
                return -ENOTSUP;
            }
            for (uint64_t behind = 0; behind <= 4; behind++)
                if (has(targets, base + behind) && is_reference(&walk, here, base + behind) &&
                    !visit(here, base + behind, function, context))
                    return 0;
        }
    }
    return 0;
}
