/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See reach.h.
 *
 * Enclosing: what refers to the reached functions from elsewhere is often dead itself, since
 * linkers keep functions that nothing calls. So the search goes on backwards, round by round, and
 * ends when nothing new turns up. A function to which many refer is one that the allocator shares
 * with the rest of the object; it is open at once.
 */
#include "satellites/adopt/hidden/reach.h"

#include "satellites/adopt/hidden/arrays.h"

#include "satellites/adopt/hidden/flow.h"
#include "satellites/adopt/hidden/linkage_calls.h"
#include "satellites/adopt/hidden/scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS_MAX = 24,
    REFERRERS_MAX = 48, /* of a function that is not shared */
    OUTER_MAX = 4096
};

static int refuse(struct hf_reach *reach, uint64_t where, const char *why)
{
    reach->why = why;
    reach->where = where;
    return -ENOTSUP;
}

int hf_reach_open(struct hf_reach *reach, const struct hf_image *image,
                  const struct hf_functions *functions, const struct hf_references *references)
{
    const size_t nodes = functions->count + functions->objects_count;
    *reach = (struct hf_reach){.image = image,
                               .references = references,
                               .functions = functions,
                               .shared = HF_REACH_UNKNOWN};
    if (nodes >= HF_REACH_UNKNOWN)
        return refuse(reach, 0, "it has too many symbols");
    reach->marks = calloc(nodes + 1, 1);
    reach->openers = malloc((nodes + 1) * sizeof *reach->openers);
    reach->followed = calloc(image->pointers_count + 1, 1);
    reach->pending = calloc(nodes + 1, sizeof *reach->pending);
    reach->pointers = calloc(image->pointers_count + 1, sizeof *reach->pointers);
    if (reach->marks == NULL || reach->openers == NULL || reach->followed == NULL ||
        reach->pending == NULL || reach->pointers == NULL)
        return -ENOMEM;
    memset(reach->openers, 0xff, (nodes + 1) * sizeof *reach->openers); /* HF_REACH_UNKNOWN */
    for (size_t i = 0; i < image->pointers_count; i++)
        reach->pointers[i] = (struct hf_edge){hf_reach_node(reach, image->pointers[i].where),
                                              hf_reach_node(reach, image->pointers[i].to)};
    return 0;
}

void hf_reach_close(struct hf_reach *reach)
{
    free(reach->marks);
    free(reach->openers);
    free(reach->followed);
    free(reach->pointers);
    free(reach->pending);
    free(reach->edges);
    free(reach->uses);
    free(reach->inside);
    free(reach->slots);
    *reach = (struct hf_reach){0};
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static bool is_object(const struct hf_reach *reach, uint32_t node)
{
    return node >= reach->functions->count;
}

static const struct hf_named *object_of(const struct hf_reach *reach, uint32_t node)
{
    return &reach->functions->objects[node - reach->functions->count];
}

uint32_t hf_reach_node(const struct hf_reach *reach, uint64_t address)
{
    const struct hf_function *function = hf_function_at(reach->functions, address);
    if (function != NULL)
        return (uint32_t)(function - reach->functions->functions);
    const struct hf_named *object = hf_object_at(reach->functions, address);
    return object != NULL
               ? (uint32_t)(reach->functions->count + (size_t)(object - reach->functions->objects))
               : HF_REACH_UNKNOWN;
}

const char *hf_reach_name(const struct hf_reach *reach, uint32_t node)
{
    if (node == HF_REACH_UNKNOWN)
        return NULL;
    return is_object(reach, node) ? object_of(reach, node)->name
                                  : reach->functions->functions[node].name;
}

void hf_reach_mark(struct hf_reach *reach, uint32_t node, uint8_t marks)
{
    const uint8_t before = reach->marks[node], looked_at = HF_REACH_IN | HF_REACH_OUTER;
    reach->marks[node] |= marks;
    if ((before & looked_at) == 0 && (marks & looked_at) != 0)
        reach->pending[reach->pending_count++] = node;
}

static bool is_known(const struct hf_reach *reach, uint32_t node)
{
    return (reach->marks[node] & (HF_REACH_IN | HF_REACH_OUTER)) != 0;
}

static int append(struct hf_edge **edges, size_t *count, size_t *capacity, struct hf_edge edge)
{
    if (hf_array_more(edges, *count, capacity, sizeof **edges) != 0)
        return -ENOMEM;
    (*edges)[(*count)++] = edge;
    return 0;
}

static int add_edge(struct hf_reach *reach, uint32_t from, uint32_t to)
{
    return append(&reach->edges, &reach->edges_count, &reach->edges_capacity,
                  (struct hf_edge){from, to});
}

/* Takes note of a reference that leads behind the beginning of an entry. */
static int note_inside(struct hf_reach *reach, uint32_t from, uint32_t to, uint64_t address)
{
    if (to == from || to == HF_REACH_UNKNOWN || is_object(reach, to) ||
        (reach->marks[to] & HF_REACH_STOP) == 0 ||
        reach->functions->functions[to].address == address)
        return 0;
    return append(&reach->inside, &reach->inside_count, &reach->inside_capacity,
                  (struct hf_edge){from, to});
}

static int add_use(struct hf_reach *reach, uint64_t address, uint32_t function)
{
    if (hf_array_more(&reach->uses, reach->uses_count, &reach->uses_capacity,
                      sizeof *reach->uses) != 0)
        return -ENOMEM;
    reach->uses[reach->uses_count++] = (struct hf_data_use){address, function};
    return 0;
}

/* ---- following references ------------------------------------------------------------------- */

/* A reference from a node to another. What an outer node refers to is not reached by that. */
static int refer(struct hf_reach *reach, uint32_t from, uint32_t to)
{
    if (to == from || to == HF_REACH_UNKNOWN)
        return 0;
    if ((reach->marks[from] & HF_REACH_IN) != 0 && (reach->marks[to] & HF_REACH_STOP) == 0)
        hf_reach_mark(reach, to, HF_REACH_IN);
    return add_edge(reach, from, to);
}

/* A reference through a slot. Whoever else uses the slot is not searched for. */
static int refer_by_slot(struct hf_reach *reach, uint32_t from, uint32_t to)
{
    if (to != HF_REACH_UNKNOWN && to != from && (reach->marks[from] & HF_REACH_IN) != 0 &&
        (reach->marks[to] & HF_REACH_STOP) == 0)
        reach->shared = to;
    return refer(reach, from, to);
}

/* An entry of a procedure linkage table jumps through a slot, which may hold a function of the
 * object's own. */
static int refer_by_linkage(struct hf_reach *reach, uint32_t from, uint64_t address)
{
    const struct hf_image *image = reach->image;
    const size_t slot = hf_image_pointer(image, address);
    if (slot == image->pointers_count || image->pointers[slot].where != address)
        return 0; /* another object's function */
    reach->followed[slot] = 1;
    return refer_by_slot(reach, from, reach->pointers[slot].to);
}

static int refer_to_linkage(struct hf_reach *reach, uint32_t from, uint64_t address)
{
    const struct hf_image *image = reach->image;
    if (image->code->effect != NULL)
        return refer_by_linkage(reach, from, hf_call_slot(image, address));
    for (unsigned i = 0; i < 3; i++) {
        struct hf_instruction instruction;
        uint64_t size;
        const unsigned char *bytes = hf_image_at(image, address, &size);
        if (bytes == NULL || !image->code->decode(bytes, size, address, &instruction))
            return refuse(reach, address, "its procedure linkage table is of an unknown form");
        if (instruction.operand != 0)
            return refer_by_linkage(reach, from, instruction.operand);
        address += instruction.length;
    }
    return 0;
}

/* Follows the pointers in a range of data. */
static int follow_pointers(struct hf_reach *reach, uint32_t from, uint64_t first, uint64_t end)
{
    const struct hf_image *image = reach->image;
    int error = 0;
    for (size_t i = hf_image_pointer(image, first);
         error == 0 && i < image->pointers_count && image->pointers[i].where < end; i++) {
        if ((reach->marks[from] & HF_REACH_IN) != 0)
            reach->followed[i] = 1;
        const uint32_t to = reach->pointers[i].to;
        error = refer(reach, from, to);
        if (error == 0 && (reach->marks[from] & HF_REACH_IN) != 0 &&
            hf_image_is_slot(image, image->pointers[i].where))
            error = append(&reach->slots, &reach->slots_count, &reach->slots_capacity,
                           (struct hf_edge){(uint32_t)i, to});
    }
    return error;
}

static int refer_to(struct hf_reach *reach, uint32_t from, uint64_t address)
{
    const struct hf_stretch *stretch = hf_image_stretch(reach->image, address);
    if (stretch == NULL)
        return 0;
    if (hf_image_is_linkage(reach->image, address))
        return refer_to_linkage(reach, from, address);
    int error = stretch->writable ? add_use(reach, address, from) : 0;
    if (error != 0)
        return error;
    const uint32_t to = hf_reach_node(reach, address);
    error = note_inside(reach, from, to, address);
    if (error != 0)
        return error;
    if (to != HF_REACH_UNKNOWN)
        return refer(reach, from, to);
    /* A slot, or a constant without a name: a word, or a vector of two, which is aligned. */
    const uint64_t size = address % 16 == 0 && !hf_image_is_slot(reach->image, address) ? 16 : 8;
    return stretch->code ? 0 : follow_pointers(reach, from, address, address + size);
}

struct following {
    struct hf_reach *reach;
    uint32_t from;
    int error;
};

/* Whoever has a part of an object can have all of it. */
static bool follow_reference(const struct hf_flow_reference *reference, void *context)
{
    struct following *following = context;
    struct hf_reach *reach = following->reach;
    if (reference->page) { /* The search for what refers to known nodes is about the others. */
        if ((reach->marks[following->from] & HF_REACH_IN) == 0)
            return true;
        following->error = refuse(reach, reference->where, "an address in code cannot be followed");
        return false;
    }
    const struct hf_named *object = hf_object_at(reach->functions, reference->target);
    following->error = refer_to(reach, following->from, reference->target);
    if (following->error == 0 && object != NULL && object->address != reference->target)
        following->error = refer_to(reach, following->from, object->address);
    return following->error == 0;
}

static int follow_flow(struct hf_reach *reach, uint32_t from)
{
    const struct hf_function *function = &reach->functions->functions[from];
    struct following following = {reach, from, 0};
    const struct hf_flow flow = {reach->image, reach->functions, NULL, follow_reference,
                                 &following};
    const int error = hf_flow_follow(&flow, function);
    return error == -ENOTSUP ? refuse(reach, function->address, "a function cannot be followed")
           : error != 0      ? error
                             : following.error;
}

static int follow_function(struct hf_reach *reach, uint32_t from)
{
    const struct hf_function *function = &reach->functions->functions[from];
    if (reach->image->code->effect != NULL)
        return follow_flow(reach, from);
    uint64_t capacity;
    const unsigned char *bytes = hf_image_at(reach->image, function->address, &capacity);
    if (bytes == NULL || capacity < function->size)
        return refuse(reach, function->address, "a function lies outside the file");
    int error = 0;
    for (uint64_t at = 0; error == 0 && at < function->size;) {
        struct hf_instruction instruction;
        if (!reach->image->code->decode(bytes + at, function->size - at, function->address + at,
                                        &instruction))
            return refuse(reach, function->address + at,
                          "its allocator has a function that cannot be decoded");
        if (instruction.target != 0)
            error = refer_to(reach, from, instruction.target);
        if (error == 0 && instruction.operand != 0)
            error = refer_to(reach, from, instruction.operand);
        at += instruction.length;
    }
    return error;
}

int hf_reach_follow(struct hf_reach *reach)
{
    int error = 0;
    while (error == 0 && reach->done_count < reach->pending_count) {
        const uint32_t node = reach->pending[reach->done_count++];
        if (is_object(reach, node)) {
            const struct hf_named *object = object_of(reach, node);
            error = follow_pointers(reach, node, object->address, object->address + object->size);
        } else {
            error = follow_function(reach, node);
        }
    }
    return error;
}

/* ---- enclosing ------------------------------------------------------------------------------ */

struct round {
    struct hf_reach *reach;
    uint32_t *referrers; /* how many there are, by node */
    uint32_t last_from, last_to;
    uint64_t *entries; /* where the STOPs begin, ascending */
    size_t entries_count;
    int error;
};

/* Whether an object is read-only, and holds no pointers. */
static bool is_constant(const struct hf_reach *reach, uint32_t node)
{
    const struct hf_image *image = reach->image;
    const struct hf_named *object = object_of(reach, node);
    const struct hf_stretch *stretch = hf_image_stretch(image, object->address);
    const size_t next = hf_image_pointer(image, object->address);
    return stretch != NULL && !stretch->writable &&
           (next == image->pointers_count ||
            image->pointers[next].where - object->address >= object->size);
}

/* A reference from elsewhere to a known node. */
static void found(struct round *round, uint32_t from, uint32_t to)
{
    struct hf_reach *reach = round->reach;
    if (to == HF_REACH_UNKNOWN || !is_known(reach, to) || (reach->marks[to] & HF_REACH_STOP) != 0)
        return;
    if (is_object(reach, to) && is_constant(reach, to))
        return; /* it leads nowhere */
    if (from != HF_REACH_UNKNOWN && is_known(reach, from))
        return; /* its edges are there */
    if (from == round->last_from && to == round->last_to)
        return;
    round->last_from = from;
    round->last_to = to;
    const bool is_shared =
        (reach->marks[to] & HF_REACH_OWN) == 0 && ++round->referrers[to] > REFERRERS_MAX;
    if (from == HF_REACH_UNKNOWN || is_shared ||
        reach->pending_count - reach->done_count > OUTER_MAX)
        round->error = add_edge(reach, HF_REACH_UNKNOWN, to);
    else
        hf_reach_mark(reach, from, HF_REACH_OUTER);
}

/* Whether bytes of which nobody knows whether they are code can refer to an address. Tables among
 * code, as ciphers written in assembler have, look like references by chance, most of them to the
 * middle of a function. Code without symbols calls functions at their beginning. */
static bool may_be_called(const struct hf_reach *reach, uint64_t address)
{
    const struct hf_function *function = hf_function_at(reach->functions, address);
    return function == NULL || function->address == address;
}

static bool found_in_code(uint64_t where, uint64_t target, const struct hf_function *function,
                          void *context)
{
    struct round *round = context;
    const struct hf_reach *reach = round->reach;
    const uint32_t from =
        function != NULL ? (uint32_t)(function - reach->functions->functions) : HF_REACH_UNKNOWN;
    uint32_t to = hf_reach_node(reach, target);
    if (hf_image_is_slot(reach->image, target)) {
        const size_t slot = hf_image_pointer(reach->image, target);
        if (slot == reach->image->pointers_count || reach->image->pointers[slot].where != target)
            return true;
        to = reach->pointers[slot].to;
        if (hf_image_is_linkage(reach->image, where)) {
            if (to != HF_REACH_UNKNOWN && (reach->marks[to] & HF_REACH_STOP) == 0)
                round->reach->shared = to;
            return true;
        }
        found(round, from, to);
        return round->error == 0;
    }
    if (from == HF_REACH_UNKNOWN && !may_be_called(reach, target))
        return true;
    if (from == HF_REACH_UNKNOWN || !is_known(reach, from))
        round->error = note_inside(round->reach, from, to, target);
    if (round->error == 0)
        found(round, from, to);
    return round->error == 0;
}

/* Pointers in data that nothing reached refers to. */
static void find_in_data(struct round *round)
{
    const struct hf_reach *reach = round->reach;
    const struct hf_image *image = reach->image;
    for (size_t i = 0; round->error == 0 && i < image->pointers_count; i++)
        if (reach->followed[i] == 0)
            found(round, reach->pointers[i].from, reach->pointers[i].to);
}

static void range_of(const struct hf_reach *reach, uint32_t node, uint64_t *address, uint64_t *size)
{
    if (is_object(reach, node)) {
        *address = object_of(reach, node)->address;
        *size = object_of(reach, node)->size;
    } else {
        *address = reach->functions->functions[node].address;
        *size = reach->functions->functions[node].size;
    }
}

/* Adds the slots that lead to known nodes, for which code is searched: linkers leave slots behind
 * that nothing uses, once they have changed the code that did (lld for aarch64). */
static int add_slots(struct hf_reach *reach)
{
    const struct hf_image *image = reach->image;
    int error = 0;
    for (size_t i = 0; error == 0 && i < image->pointers_count; i++) {
        if (reach->followed[i] != 0 || !hf_image_is_slot(image, image->pointers[i].where))
            continue;
        const uint32_t to = reach->pointers[i].to;
        if (to == HF_REACH_UNKNOWN || !is_known(reach, to) ||
            (reach->marks[to] & HF_REACH_STOP) != 0)
            continue;
        reach->followed[i] = 1;
        error = append(&reach->slots, &reach->slots_count, &reach->slots_capacity,
                       (struct hf_edge){(uint32_t)i, to});
    }
    return error;
}

/* Looks in all code for references to the nodes that became known since the last round. An object
 * that the allocator reads is not what leads to it; one that leads to it is an outer node. */
static int find_in_code(struct round *round)
{
    struct hf_reach *reach = round->reach;
    struct hf_targets targets = {0};
    uint64_t first = UINT64_MAX, end = 0, address, size, where = 0;
    int error = reach->image->code->effect != NULL ? add_slots(reach) : 0;
    if (error != 0)
        return error;
    for (size_t i = reach->enclosed_count; i < reach->pending_count; i++) {
        range_of(reach, reach->pending[i], &address, &size);
        if (address < first)
            first = address;
        if (address + size > end)
            end = address + size;
    }
    for (size_t i = 0; i < reach->slots_count; i++) {
        address = reach->image->pointers[reach->slots[i].from].where;
        first = address < first ? address : first;
        end = address + 8 > end ? address + 8 : end;
    }
    if (first >= end)
        return 0;
    error = hf_targets_open(&targets, first, end - first);
    for (size_t i = 0; error == 0 && i < reach->slots_count; i++)
        hf_targets_add(&targets, reach->image->pointers[reach->slots[i].from].where, 8);
    targets.except = round->entries;
    targets.except_count = round->entries_count;
    for (size_t i = reach->enclosed_count; error == 0 && i < reach->pending_count; i++) {
        const uint32_t node = reach->pending[i];
        if ((is_object(reach, node) && (reach->marks[node] & HF_REACH_IN) != 0))
            continue;
        range_of(reach, node, &address, &size);
        hf_targets_add(&targets, address, size);
    }
    reach->enclosed_count = reach->pending_count;
    if (error == 0)
        error =
            hf_scan(reach->references, reach->functions, &targets, found_in_code, round, &where);
    if (error == -ENOTSUP)
        error = refuse(reach, where, "code that refers to the allocator cannot be decoded");
    hf_targets_close(&targets);
    return error;
}

bool hf_reach_is_open(const struct hf_reach *reach, uint32_t node)
{
    return node == HF_REACH_UNKNOWN || (reach->marks[node] & HF_REACH_OPEN) != 0;
}

bool hf_reach_is_in(const struct hf_reach *reach, uint32_t node)
{
    return node != HF_REACH_UNKNOWN && (reach->marks[node] & HF_REACH_IN) != 0;
}

bool hf_reach_is_closed(const struct hf_reach *reach, uint32_t node)
{
    return node != HF_REACH_UNKNOWN && is_known(reach, node) && !hf_reach_is_open(reach, node);
}

static void spread(struct hf_reach *reach)
{
    /* The names of reached functions can be hidden; other objects may want those that lead there.
     */
    for (size_t i = 0; i < reach->functions->count; i++)
        if (is_known(reach, (uint32_t)i) &&
            (reach->marks[i] & (HF_REACH_STOP | HF_REACH_IN | HF_REACH_OWN)) == 0 &&
            reach->functions->functions[i].exported)
            reach->marks[i] |= HF_REACH_OPEN;
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < reach->edges_count; i++) {
            const struct hf_edge *edge = &reach->edges[i];
            if (hf_reach_is_open(reach, edge->from) && !hf_reach_is_open(reach, edge->to) &&
                (reach->marks[edge->to] & HF_REACH_STOP) == 0) {
                reach->marks[edge->to] |= HF_REACH_OPEN;
                reach->openers[edge->to] = edge->from;
                again = true;
            }
        }
    }
}

int hf_reach_enclose(struct hf_reach *reach)
{
    struct round round = {.reach = reach};
    const size_t nodes = reach->functions->count + reach->functions->objects_count;
    round.referrers = calloc(nodes + 1, sizeof *round.referrers);
    round.entries = calloc(reach->functions->count + 1, sizeof *round.entries);
    if (round.referrers == NULL || round.entries == NULL) {
        free(round.referrers);
        free(round.entries);
        return -ENOMEM;
    }
    for (size_t i = 0; i < reach->functions->count; i++)
        if ((reach->marks[i] & HF_REACH_STOP) != 0)
            round.entries[round.entries_count++] = reach->functions->functions[i].address;
    int error = 0;
    for (unsigned rounds = 0; error == 0 && reach->enclosed_count < reach->pending_count;
         rounds++) {
        if (rounds == ROUNDS_MAX) {
            error = refuse(reach, 0, "too much of the object leads to the allocator");
            break;
        }
        error = find_in_code(&round);
        if (error == 0)
            find_in_data(&round);
        if (error == 0)
            error = round.error;
        if (error == 0)
            error = hf_reach_follow(reach);
    }
    free(round.referrers);
    free(round.entries);
    if (error == 0)
        spread(reach);
    return error;
}
