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
    return from < targets->size && (targets->bits[from / PIECE / 8] >> (from / PIECE % 8) & 1) != 0;
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

/* Whether the `width` bytes at `where` are an instruction's reference to `target`. */
static bool is_reference(const struct walk *walk, uint64_t where, unsigned width, uint64_t target)
{
    if (walk->broken || where < walk->at || where + width > walk->next)
        return false;
    const struct hf_instruction *instruction = &walk->instruction;
    return instruction->operand == target ||
           (instruction->kind != HF_CODE_OTHER && instruction->target == target);
}

static bool is_except(const struct hf_targets *targets, uint64_t address)
{
    size_t first = 0, end = targets->except_count;
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        if (targets->except[middle] == address)
            return true;
        if (targets->except[middle] < address)
            first = middle + 1;
        else
            end = middle;
    }
    return false;
}

struct scan {
    const struct hf_image *image;
    const struct hf_functions *functions;
    const struct hf_targets *targets;
    hf_scan_visitor *visit;
    void *context;
    struct walk walk;
    bool ended;
};

/* Confirms what looks like a reference from `here`, whose displacement has `width` bytes. An
 * immediate value of up to four bytes may follow it. Result: 0 or -ENOTSUP. */
static int confirm(struct scan *scan, uint64_t here, uint64_t base, unsigned width)
{
    const struct hf_function *function = hf_function_at(scan->functions, here);
    if (function == NULL) {
        scan->ended = width == DISPLACEMENT && has(scan->targets, base) &&
                      !scan->visit(here, base, NULL, scan->context);
        return 0;
    }
    walk_to(&scan->walk, function, here);
    if (scan->walk.broken && function->gap) {
        scan->ended = width == DISPLACEMENT && has(scan->targets, base) &&
                      !scan->visit(here, base, NULL, scan->context);
        return 0;
    }
    if (scan->walk.broken)
        return -ENOTSUP;
    for (uint64_t behind = 0; !scan->ended && behind <= (width == 1 ? 0 : 4); behind++)
        if (has(scan->targets, base + behind) &&
            is_reference(&scan->walk, here, width, base + behind))
            scan->ended = !scan->visit(here, base + behind, function, scan->context);
    return 0;
}

/* A short jump reaches functions beside its own. */
static int look_near(struct scan *scan, const struct hf_stretch *stretch, uint64_t at)
{
    const uint64_t here = stretch->address + at;
    const uint64_t target = here + 1 + (uint64_t)(int64_t)(int8_t)stretch->bytes[at];
    if (!has(scan->targets, target) || is_except(scan->targets, target))
        return 0;
    const struct hf_function *function = hf_function_at(scan->functions, here);
    if (function == NULL || target - function->address < function->size)
        return 0;
    return confirm(scan, here, target, 1);
}

static int look_far(struct scan *scan, const struct hf_stretch *stretch, uint64_t at)
{
    int32_t displacement;
    memcpy(&displacement, stretch->bytes + at, sizeof displacement);
    const uint64_t here = stretch->address + at;
    const uint64_t base = here + DISPLACEMENT + (uint64_t)(int64_t)displacement;
    if (!has(scan->targets, base) && !has(scan->targets, base + 4))
        return 0;
    if (hf_code_may_branch(stretch->bytes, at) && is_except(scan->targets, base))
        return 0;
    return confirm(scan, here, base, DISPLACEMENT);
}

int hf_scan(const struct hf_image *image, const struct hf_functions *functions,
            const struct hf_targets *targets, hf_scan_visitor *visit, void *context,
            uint64_t *where)
{
    struct scan scan = {image, functions, targets, visit, context, {.image = image}, false};
    for (size_t i = 0; i < image->stretches_count; i++) {
        const struct hf_stretch *stretch = &image->stretches[i];
        if (!stretch->code)
            continue;
        for (uint64_t at = 1; at < stretch->bytes_size; at++) {
            int error = 0;
            if (at + DISPLACEMENT <= stretch->bytes_size && hf_code_may_refer(stretch->bytes, at))
                error = look_far(&scan, stretch, at);
            if (error == 0 && hf_code_may_branch_near(stretch->bytes, at))
                error = look_near(&scan, stretch, at);
            if (error != 0) {
                *where = scan.walk.at;
                return error;
            }
            if (scan.ended)
                return 0;
        }
    }
    return 0;
}
