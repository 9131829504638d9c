/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See scan.h.
 */
#include "satellites/adopt/hidden/scan.h"

#include "satellites/adopt/hidden/arrays.h"
#include "satellites/adopt/hidden/code.h"
#include "satellites/adopt/hidden/scan_words.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)HF_TARGETS_PAGE == HF_REFERENCES_PAGE,
               "pages of the index are those of targets");

enum {
    PIECE = HF_TARGETS_PIECE,
    PAGE = HF_TARGETS_PAGE,
    PAGE_BITS = HF_TARGETS_PAGE_BITS,
    DISPLACEMENT = 4,
    NEAR = 128 /* how far a short jump reaches */
};

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
        walk->broken = bytes == NULL ||
                       !walk->image->code->decode(bytes, size, walk->next, &walk->instruction);
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

struct scan {
    const struct hf_references *references;
    const struct hf_functions *functions;
    const struct hf_targets *targets;
    hf_scan_visitor *visit;
    void *context;
    struct walk walk;
    struct hf_function linkage; /* the procedure linkage table that was walked last */
    bool ended;
    uint64_t *places; /* what looks like a reference: twice its place, and one for a short jump */
    size_t count, capacity;
};

/* The procedure linkage table in which an address lies, as a function; NULL if there is none. */
static const struct hf_function *linkage_at(struct scan *scan, uint64_t address)
{
    const struct hf_image *image = scan->references->image;
    if (address - scan->linkage.address < scan->linkage.size)
        return &scan->linkage;
    for (size_t i = 0; i < image->linkages_count; i++) {
        const struct hf_linkage *table = &image->linkages[i];
        if (table->slots || address - table->address >= table->size)
            continue;
        scan->linkage = (struct hf_function){
            .address = table->address,
            .size = table->size,
            .gap = true,
        };
        scan->walk.function = NULL;
        return &scan->linkage;
    }
    return NULL;
}

/* Confirms what looks like a reference from `here`, whose displacement has `width` bytes. An
 * immediate value of up to four bytes may follow it. Result: 0 or -ENOTSUP. */
static int confirm(struct scan *scan, uint64_t here, uint64_t base, unsigned width)
{
    const struct hf_function *function = hf_function_at(scan->functions, here);
    const struct hf_function *code = function != NULL ? function : linkage_at(scan, here);
    if (code != NULL)
        walk_to(&scan->walk, code, here);
    if (code == NULL || (scan->walk.broken && code->gap)) {
        scan->ended = width == DISPLACEMENT && hf_targets_has_piece(scan->targets, base) &&
                      !scan->visit(here, base, NULL, scan->context);
        return 0;
    }
    if (scan->walk.broken)
        return -ENOTSUP;
    for (uint64_t behind = 0; !scan->ended && behind <= (width == 1 ? 0 : 4); behind++)
        if (hf_targets_has_piece(scan->targets, base + behind) &&
            is_reference(&scan->walk, here, width, base + behind))
            scan->ended = !scan->visit(here, base + behind, function, scan->context);
    return 0;
}

static const struct hf_code *code_of(const struct scan *scan)
{
    return scan->references->image->code;
}

static uint64_t near_target(const struct hf_stretch *stretch, uint64_t at)
{
    return stretch->address + at + 1 + (uint64_t)(int64_t)(int8_t)stretch->bytes[at];
}

static uint64_t far_target(const struct hf_stretch *stretch, uint64_t at)
{
    int32_t displacement;
    memcpy(&displacement, stretch->bytes + at, sizeof displacement);
    return stretch->address + at + DISPLACEMENT + (uint64_t)(int64_t)displacement;
}

static int add_place(struct scan *scan, uint64_t place, bool near)
{
    if (hf_array_more(&scan->places, scan->count, &scan->capacity, sizeof *scan->places) != 0)
        return -ENOMEM;
    scan->places[scan->count++] = place * 2 + near;
    return 0;
}

/* Whether a page has targets, or the first bytes of the next one are some. */
static bool has_some(const struct hf_targets *targets, uint64_t page)
{
    for (size_t i = 0; i < PAGE_BITS; i++)
        if (targets->bits[page * PAGE_BITS + i] != 0)
            return true;
    return (targets->bits[(page + 1) * PAGE_BITS] & 1) != 0;
}

static int find_far(struct scan *scan)
{
    const struct hf_targets *targets = scan->targets;
    int error = 0;
    /* The displacement may lead to the page before, and an immediate value follow it. */
    uint64_t page = 0;
    if (targets->bits[0] != 0 && targets->first >= PAGE)
        page = UINT64_MAX;
    for (; error == 0 && (page == UINT64_MAX || page < targets->size / PAGE); page++) {
        if (page != UINT64_MAX && !has_some(targets, page))
            continue;
        const uint32_t *places = NULL;
        const size_t count =
            hf_references_to_page(scan->references, targets->first + page * PAGE, &places);
        for (size_t i = 0; error == 0 && i < count; i++) {
            uint64_t at;
            const struct hf_stretch *stretch =
                hf_references_place(scan->references, places[i], &at);
            const uint64_t base = far_target(stretch, at);
            if (!hf_targets_has_piece(targets, base) && !hf_targets_has_piece(targets, base + 4))
                continue;
            if (!code_of(scan)->may_branch(stretch->bytes, at) ||
                !hf_targets_is_except(targets, base))
                error = add_place(scan, places[i], false);
        }
    }
    return error;
}

/* Short jumps to targets in one stretch, from `first` to `end`, out of other functions. */
static int find_near_run(struct scan *scan, const struct hf_code_bytes *code, uint64_t first,
                         uint64_t end)
{
    const struct hf_stretch *stretch = &code->stretch;
    const uint64_t last = end - stretch->address + NEAR;
    uint64_t at = first - stretch->address < NEAR ? 1 : first - stretch->address - NEAR + 1;
    int error = 0;
    for (; error == 0 && at < last && at < stretch->bytes_size; at++) {
        if (!code_of(scan)->may_branch_near(stretch->bytes, at))
            continue;
        const uint64_t target = near_target(stretch, at);
        if (!hf_targets_has_piece(scan->targets, target) ||
            hf_targets_is_except(scan->targets, target))
            continue;
        const struct hf_function *function = hf_function_at(scan->functions, stretch->address + at);
        if (function != NULL && target - function->address >= function->size)
            error = add_place(scan, code->offset + at, true);
    }
    return error;
}

static int find_near(struct scan *scan)
{
    const struct hf_targets *targets = scan->targets;
    int error = 0;
    for (size_t i = 0; i < scan->references->code_count; i++) {
        const struct hf_code_bytes *code = &scan->references->code[i];
        const uint64_t end = code->stretch.address + code->stretch.bytes_size;
        uint64_t at = code->stretch.address;
        if (at < targets->first)
            at = targets->first;
        while (error == 0 && at < end && at - targets->first < targets->size) {
            const uint64_t piece = (at - targets->first) / PIECE;
            uint64_t word;
            memcpy(&word, targets->bits + piece / 64 * sizeof word, sizeof word);
            if (word == 0) {
                at = targets->first + (piece / 64 + 1) * 64 * PIECE;
                continue;
            }
            const uint64_t first = at;
            while (at < end && hf_targets_has_piece(targets, at))
                at = targets->first + ((at - targets->first) / PIECE + 1) * PIECE;
            if (first == at)
                at = targets->first + (piece + 1) * PIECE;
            else
                error = find_near_run(scan, code, first, at);
        }
    }
    return error;
}

int hf_scan(const struct hf_references *references, const struct hf_functions *functions,
            const struct hf_targets *targets, hf_scan_visitor *visit, void *context,
            uint64_t *where)
{
    if (references->image->code->effect != NULL)
        return hf_scan_words(references->image, functions, targets, visit, context, where);
    struct scan scan = {.references = references,
                        .functions = functions,
                        .targets = targets,
                        .visit = visit,
                        .context = context,
                        .walk = {.image = references->image}};
    int error = find_far(&scan);
    if (error == 0)
        error = find_near(&scan);
    if (scan.count > 1)
        qsort(scan.places, scan.count, sizeof *scan.places, hf_array_by_address);
    for (size_t i = 0; error == 0 && !scan.ended && i < scan.count; i++) {
        if (i > 0 && scan.places[i] == scan.places[i - 1])
            continue;
        uint64_t at;
        const bool near = scan.places[i] % 2 != 0;
        const struct hf_stretch *stretch =
            hf_references_place(references, (uint32_t)(scan.places[i] / 2), &at);
        const uint64_t target = near ? near_target(stretch, at) : far_target(stretch, at);
        error = confirm(&scan, stretch->address + at, target, near ? 1 : DISPLACEMENT);
        if (error != 0)
            *where = scan.walk.at;
    }
    free(scan.places);
    return error;
}
