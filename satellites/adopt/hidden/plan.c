/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See plan.h.
 *
 * Why the plan is sufficient. The functions by which an allocator is used are its entry points.
 * Everything that they reach is the allocator, and their beginnings are replaced. What remains is
 * code that comes to run in another way:
 * - functions that other code of the object reaches as well. Those must not touch the allocator's
 *   data: then they are helpers such as a population count, and not a way into it.
 * - functions that other objects call by name: the copy has no such names.
 * - other code that touches the allocator's data directly, such as an inlined fast path. There must
 *   be none.
 */
#include "satellites/adopt/hidden/plan.h"

#include "satellites/adopt/hidden/code.h"
#include "satellites/adopt/hidden/entries.h"
#include "satellites/adopt/hidden/own_data.h"
#include "satellites/adopt/hidden/reach.h"
#include "satellites/adopt/hidden/release_only.h"
#include "satellites/adopt/hidden/scan.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct planning {
    struct hf_plan *plan;
    const struct hf_image *image;
    const struct hf_functions *functions;
    struct hf_entry_names names;
    struct hf_references references;
    struct hf_reach reach;
    struct hf_own_data own;
    uint64_t *intruders; /* by index of the function: which data of the allocator it uses, or 0 */
    bool found;          /* there are some */
};

int hf_adopt_fail(char *why, size_t size, int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, size, format, arguments);
    va_end(arguments);
    return error;
}

/* Names are hostile: as long as the file. */
#define NAME "%.120s"

static const char *name_of(const struct planning *planning, uint32_t node)
{
    const char *name = hf_reach_name(&planning->reach, node);
    return name != NULL ? name : "a function without a name";
}

/* ---- entries -------------------------------------------------------------------------------- */

static struct hf_redirection *last_redirection(const struct planning *planning)
{
    const struct hf_plan *plan = planning->plan;
    return plan->count > 0 ? &plan->redirections[plan->count - 1] : NULL;
}

/* The size of a function and of the padding behind it. */
static uint64_t capacity_of(const struct planning *planning, const struct hf_function *function)
{
    const struct hf_function *next = function + 1;
    const struct hf_function *end = planning->functions->functions + planning->functions->count;
    uint64_t available;
    if (next == end || !next->gap || next->address != function->address + function->size)
        return function->size;
    const unsigned char *bytes = hf_image_at(planning->image, next->address, &available);
    return bytes != NULL && next->size <= available &&
                   planning->image->code->is_padding(bytes, next->size)
               ? function->size + next->size
               : function->size;
}

/* One name of a function that is an entry. Names come by address, so those of one function come one
 * after the other. */
static int add_entry(struct planning *planning, const struct hf_named *named,
                     const struct hf_entry *entry, const struct hf_entry **before)
{
    struct hf_plan *plan = planning->plan;
    const struct hf_function *function = hf_function_at(planning->functions, named->address);
    if (function == NULL || function->address != named->address || !function->unwound)
        return HF_ADOPT_FAIL(plan->why, -ENOTSUP,
                             "no function begins where its symbol " NAME
                             " is, as far as the unwind table says",
                             named->name);
    /* Its parameters may be others than its name says: those that are constant in all calls are
     * gone. */
    if (named->merged)
        return HF_ADOPT_FAIL(
            plan->why, -ENOTSUP,
            "its allocator was optimised together with other code at link time, so that "
            "calls of " NAME " may have lost arguments",
            named->name);
    if (named->internal && !entry->hook)
        return HF_ADOPT_FAIL(plan->why, -ENOTSUP,
                             NAME
                             " belongs to one source file alone, so that calls of it may have lost "
                             "arguments",
                             named->name);
    if (named->type == STT_GNU_IFUNC)
        return HF_ADOPT_FAIL(plan->why, -ENOTSUP,
                             NAME " is chosen when the object is loaded (IFUNC)", named->name);
    const uint32_t node = (uint32_t)(function - planning->functions->functions);
    hf_reach_mark(&planning->reach, node, HF_REACH_IN | HF_REACH_STOP);
    if (entry->allocator != HF_ALLOCATOR_COUNT)
        plan->allocators[entry->allocator] = true;
    struct hf_redirection *last = last_redirection(planning);
    if (last == NULL || last->address != named->address) {
        *before = entry;
        plan->redirections[plan->count++] = (struct hf_redirection){
            .address = named->address,
            .capacity = capacity_of(planning, function),
            .name = named->name,
            .function = entry->function,
        };
        return 0;
    }
    const char *shared = hf_entry_shared(*before, entry);
    if (shared == NULL)
        return HF_ADOPT_FAIL(plan->why, -ENOTSUP,
                             "its functions " NAME " and " NAME
                             " are the same code, and nothing on the "
                             "heap does the work of both",
                             last->name, named->name);
    last->function = shared;
    if (strcmp(shared, entry->function) == 0)
        *before = entry;
    return 0;
}

/* Finds the entries. Result: -ENOENT if there is no entry that only allocators have. */
static int find_entries(struct planning *planning)
{
    const struct hf_functions *functions = planning->functions;
    const struct hf_entry *before = NULL;
    bool found = false;
    int error = 0;
    for (size_t i = 0; i < functions->names_count; i++)
        hf_entry_names_prefix(&planning->names, functions->names[i].name);
    for (size_t i = 0; error == 0 && i < functions->names_count; i++) {
        const struct hf_named *named = &functions->names[i];
        const struct hf_entry *entry = hf_entry_named(&planning->names, named->name);
        if (entry == NULL) {
            const struct hf_function *own = hf_function_at(functions, named->address);
            if (own != NULL && hf_entry_names_own(&planning->names, named->name))
                hf_reach_mark(&planning->reach, (uint32_t)(own - functions->functions),
                              HF_REACH_OWN);
            continue;
        }
        if (entry->function[0] != '\0') {
            error = add_entry(planning, named, entry, &before);
            found |= entry->allocator != HF_ALLOCATOR_COUNT && !entry->hook;
            continue;
        }
        const struct hf_function *shared = hf_function_at(functions, named->address);
        if (shared != NULL && shared->address == named->address)
            hf_reach_mark(&planning->reach, (uint32_t)(shared - functions->functions),
                          HF_REACH_STOP);
    }
    for (size_t i = 0; error == 0 && i < functions->objects_count; i++) {
        const struct hf_entry *entry = hf_entry_named(&planning->names, functions->objects[i].name);
        if (entry != NULL && entry->function[0] == '\0')
            hf_reach_mark(&planning->reach, (uint32_t)(functions->count + i), HF_REACH_STOP);
    }
    return error != 0 ? error : found ? 0 : -ENOENT;
}

static int enclose(struct planning *planning)
{
    struct hf_reach *reach = &planning->reach;
    int error = 0;
    if (planning->references.image == NULL)
        error = hf_references_open(&planning->references, planning->image);
    if (error == -ENOTSUP)
        return HF_ADOPT_FAIL(planning->plan->why, error, "it has more than 4 GiB of code");
    if (error == 0)
        error = hf_reach_follow(reach);
    if (error == 0)
        error = hf_reach_enclose(reach);
    return error != -ENOTSUP ? error
                             : HF_ADOPT_FAIL(planning->plan->why, error, "%s (at 0x%llx)",
                                             reach->why, (unsigned long long)reach->where);
}

/* ---- the proof ------------------------------------------------------------------------------ */

static bool is_in(const struct planning *planning, uint32_t node)
{
    return hf_reach_is_in(&planning->reach, node);
}

static bool is_closed(const struct planning *planning, uint32_t node)
{
    return hf_reach_is_closed(&planning->reach, node);
}

/* Whether a message about a function would say nothing. */
static bool is_unnamed(const struct planning *planning, uint32_t node)
{
    return node != HF_REACH_UNKNOWN && hf_reach_name(&planning->reach, node) == NULL &&
           hf_elf_is_stripped(planning->image->elf);
}

static int refuse_stripped(struct planning *planning)
{
    return HF_ADOPT_FAIL(
        planning->plan->why, -ENOTSUP,
        "it is stripped, so which of its functions are its allocator's cannot be told; a "
        "debug file would have their names");
}

/* Names the function of the allocator through which an open one became open, and who refers to it
 * from outside. */
static int refuse_open(struct planning *planning, uint32_t node)
{
    const uint32_t *openers = planning->reach.openers;
    uint32_t root = node;
    while (is_in(planning, openers[root]))
        root = openers[root];
    if (is_unnamed(planning, root))
        return refuse_stripped(planning);
    return HF_ADOPT_FAIL(
        planning->plan->why, -ENOTSUP,
        NAME " %s " NAME ", a way into its allocator that nothing on the heap stands for",
        openers[root] == HF_REACH_UNKNOWN ? "its data or code outside of functions"
                                          : name_of(planning, openers[root]),
        root < planning->functions->count ? "calls" : "uses", name_of(planning, root));
}

/* Functions that other code reaches as well must not touch data. */
static int check_open(struct planning *planning)
{
    const struct hf_reach *reach = &planning->reach;
    for (size_t i = 0; i < reach->uses_count; i++) {
        const uint32_t node = reach->uses[i].function;
        if (is_in(planning, node) && (reach->marks[node] & HF_REACH_STOP) == 0 &&
            hf_reach_is_open(reach, node) && hf_own_data_is_state(reach, reach->uses[i].address))
            return refuse_open(planning, node);
    }
    for (size_t i = 0; i < reach->inside_count; i++)
        /* Functions of a runtime library stay as they are. */
        if (is_in(planning, reach->inside[i].to) && !is_closed(planning, reach->inside[i].from))
            return HF_ADOPT_FAIL(planning->plan->why, -ENOTSUP,
                                 NAME " jumps into the middle of " NAME,
                                 reach->inside[i].from == HF_REACH_UNKNOWN
                                     ? "code outside of functions"
                                     : name_of(planning, reach->inside[i].from),
                                 name_of(planning, reach->inside[i].to));
    return 0;
}

static int refuse_intruder(struct planning *planning, uint32_t node, uint64_t data)
{
    if (is_unnamed(planning, node))
        return refuse_stripped(planning);
    const struct hf_named *object =
        hf_object_at(planning->functions, hf_own_data_variable(&planning->reach, data));
    return HF_ADOPT_FAIL(
        planning->plan->why, -ENOTSUP, NAME " uses data of its allocator (" NAME ") directly",
        node == HF_REACH_UNKNOWN ? "code outside of functions" : name_of(planning, node),
        object != NULL                                   ? object->name
        : hf_image_is_thread_slot(planning->image, data) ? "a thread-local variable"
                                                         : "a variable without a name");
}

/* Start-up code compares addresses with the end of initialised data, where a variable of the
 * allocator may begin (crtstuff.c, __TMC_END__). */
static bool is_start_up(const struct planning *planning, uint32_t node)
{
    const char *name = hf_reach_name(&planning->reach, node);
    return name != NULL &&
           (strcmp(name, "register_tm_clones") == 0 || strcmp(name, "deregister_tm_clones") == 0);
}

static bool find_intruder(uint64_t where, uint64_t target, const struct hf_function *from,
                          void *context)
{
    struct planning *planning = context;
    const uint32_t node =
        from != NULL ? (uint32_t)(from - planning->functions->functions) : HF_REACH_UNKNOWN;
    if (!hf_own_data_has(&planning->own, target, from != NULL) || is_closed(planning, node) ||
        is_start_up(planning, node))
        return true;
    (void)where;
    if (node == HF_REACH_UNKNOWN) {
        (void)refuse_intruder(planning, node, target);
        return false;
    }
    /* Nothing may lead to it; that is looked at next. */
    hf_reach_mark(&planning->reach, node, HF_REACH_OUTER);
    planning->intruders[node] = target;
    planning->found = true;
    return true;
}

static int check_intruders(struct planning *planning)
{
    const int error = planning->found ? enclose(planning) : 0;
    for (uint32_t i = 0; error == 0 && i < planning->functions->count; i++)
        if (planning->intruders[i] != 0 && hf_reach_is_open(&planning->reach, i))
            return refuse_intruder(planning, i, planning->intruders[i]);
    return error;
}

static bool owns(uint32_t node, const void *context)
{
    return is_in(context, node) && is_closed(context, node);
}

/* No other code touches the allocator's data. */
static int check_data(struct planning *planning)
{
    struct hf_targets targets = {0};
    uint64_t where = 0;
    int error = hf_own_data_open(&planning->own, &planning->reach, owns, planning);
    if (error == 0)
        error = hf_own_data_targets(&planning->own, &targets);
    if (error == 0)
        error = hf_scan(&planning->references, planning->functions, &targets, find_intruder,
                        planning, &where);
    hf_targets_close(&targets);
    if (error == -ENOTSUP)
        return HF_ADOPT_FAIL(planning->plan->why, error, "code at 0x%llx cannot be decoded",
                             (unsigned long long)where);
    if (error == 0)
        error = planning->plan->why[0] != '\0' ? -ENOTSUP : check_intruders(planning);
    return error;
}

/* ---- names ---------------------------------------------------------------------------------- */

/* Functions of the old allocator that other objects could call by name. */
static int collect_names(struct planning *planning)
{
    const struct hf_functions *functions = planning->functions;
    struct hf_plan *plan = planning->plan;
    plan->hidden = calloc(functions->count + 1, sizeof *plan->hidden);
    if (plan->hidden == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < functions->count; i++)
        if (functions->functions[i].exported && is_closed(planning, i) &&
            (planning->reach.marks[i] & HF_REACH_STOP) == 0)
            plan->hidden[plan->hidden_count++] = functions->functions[i].address;
    return 0;
}

/* ---- thread-local storage ------------------------------------------------------------------- */

static bool find_thread_user(uint64_t where, uint64_t target, const struct hf_function *from,
                             void *context)
{
    struct planning *planning = context;
    const uint32_t node =
        from != NULL ? (uint32_t)(from - planning->functions->functions) : HF_REACH_UNKNOWN;
    (void)where;
    /* A map of targets also holds what lies beside them. */
    if (hf_image_thread_slot(planning->image, target) != NULL)
        planning->plan->drops_thread_data &= is_closed(planning, node);
    return planning->plan->drops_thread_data;
}

/* Whether the old allocator alone uses the object's thread-local storage. glibc may have no room
 * for it, which is then no reason any more. */
static int check_thread_data(struct planning *planning)
{
    const struct hf_image *image = planning->image;
    const size_t count = image->thread_slots_count;
    if (count == 0 || image->exports_thread_local)
        return 0;
    const uint64_t first = image->thread_slots[0].address;
    struct hf_targets targets = {0};
    uint64_t where;
    int error =
        hf_targets_open(&targets, first, image->thread_slots[count - 1].address - first + 1);
    planning->plan->drops_thread_data = true;
    for (size_t i = 0; error == 0 && i < count; i++) {
        hf_targets_add(&targets, image->thread_slots[i].address, 1);
        planning->plan->drops_thread_data &= !image->thread_slots[i].lazy;
    }
    if (error == 0 && planning->plan->drops_thread_data)
        error = hf_scan(&planning->references, planning->functions, &targets, find_thread_user,
                        planning, &where);
    hf_targets_close(&targets);
    if (error == -ENOTSUP) {
        planning->plan->drops_thread_data = false;
        error = 0;
    }
    return error;
}

/* ---- the plan ------------------------------------------------------------------------------- */

static int prove(struct planning *planning)
{
    int error = enclose(planning);
    if (error == 0 && planning->reach.shared != HF_REACH_UNKNOWN)
        error = HF_ADOPT_FAIL(planning->plan->why, -ENOTSUP,
                              "its allocator calls its own " NAME
                              " through the linkage table, which other "
                              "code can use; linked with -Bsymbolic it would not",
                              name_of(planning, planning->reach.shared));
    if (error == 0)
        error = check_open(planning);
    if (error == 0)
        error = check_data(planning);
    return error;
}

static bool releases(const struct hf_plan *plan, uint64_t address)
{
    for (size_t i = 0; i < plan->count; i++)
        if (plan->redirections[i].address == address)
            return strcmp(plan->redirections[i].function, "hf_free") == 0;
    return false;
}

/* Whether a function releases another address than the one that it is given: it keeps something of
 * its own in front of its blocks, and other code may look for it there. */
static bool has_header(const struct planning *planning, const struct hf_redirection *redirection)
{
    const struct hf_code *code = planning->image->code;
    const struct hf_function *function = hf_function_at(planning->functions, redirection->address);
    uint64_t available;
    const unsigned char *bytes = hf_image_at(planning->image, redirection->address, &available);
    struct hf_instruction instruction;
    bool offset = false;
    if (function == NULL || bytes == NULL || available < function->size)
        return false;
    for (uint64_t at = 0; at < function->size; at += instruction.length) {
        if (!code->decode(bytes + at, function->size - at, function->address + at, &instruction))
            return false;
        offset |= code->moves_address(bytes + at, instruction.length);
        if (offset && (instruction.kind == HF_CODE_CALL || instruction.kind == HF_CODE_JUMP) &&
            instruction.target != function->address && releases(planning->plan, instruction.target))
            return true;
    }
    return false;
}

/* Functions under the names that every program knows may be the program's own. */
static int check_headers(struct planning *planning)
{
    const struct hf_plan *plan = planning->plan;
    for (size_t i = 0; planning->image->code->moves_address != NULL && i < plan->count; i++) {
        const struct hf_redirection *redirection = &plan->redirections[i];
        const struct hf_entry *entry = hf_entry_named(&planning->names, redirection->name);
        if (entry != NULL && entry->allocator == HF_ALLOCATOR_COUNT &&
            releases(plan, redirection->address) && has_header(planning, redirection))
            return HF_ADOPT_FAIL(planning->plan->why, -ENOTSUP,
                                 NAME " keeps something in front of the blocks of its allocator",
                                 redirection->name);
    }
    return 0;
}

/* Once all entries are known. */
static int choose(struct planning *planning, bool release_only)
{
    int error = release_only ? enclose(planning) : prove(planning);
    if (error == (release_only ? 0 : -ENOTSUP) && planning->reach.why == NULL)
        return hf_release_only_plan(planning->plan, planning->image, planning->functions,
                                    &planning->reach, &planning->names);
    if (error == 0)
        error = check_thread_data(planning);
    return error != 0 ? error : collect_names(planning);
}

static int make(struct hf_plan *plan, const struct hf_image *image,
                const struct hf_functions *functions, bool release_only)
{
    *plan = (struct hf_plan){0};
    struct planning planning = {.plan = plan, .image = image, .functions = functions};
    if (image->code == NULL)
        return HF_ADOPT_FAIL(plan->why, -ENOTSUP,
                             "allocators inside are replaced in code for x86-64 and aarch64 alone");
    int error = hf_entry_names_prepare(&planning.names);
    if (error == 0)
        error = hf_reach_open(&planning.reach, image, functions, &planning.references);
    if (error == -ENOTSUP)
        (void)HF_ADOPT_FAIL(plan->why, error, "%s", planning.reach.why);
    plan->redirections = calloc(functions->count + 1, sizeof *plan->redirections);
    planning.intruders = calloc(functions->count + 1, sizeof *planning.intruders);
    if (error == 0 && (plan->redirections == NULL || planning.intruders == NULL))
        error = -ENOMEM;
    if (error == 0)
        error = find_entries(&planning);
    if (error == 0)
        error = check_headers(&planning);
    if (error == 0)
        error = choose(&planning, release_only);
    hf_own_data_close(&planning.own);
    hf_reach_close(&planning.reach);
    hf_references_close(&planning.references);
    free(planning.intruders);
    return error;
}

int hf_plan_make(struct hf_plan *plan, const struct hf_image *image,
                 const struct hf_functions *functions)
{
    return make(plan, image, functions, false);
}

int hf_plan_make_release_only(struct hf_plan *plan, const struct hf_image *image,
                              const struct hf_functions *functions)
{
    return make(plan, image, functions, true);
}

void hf_plan_close(struct hf_plan *plan)
{
    free(plan->redirections);
    free(plan->hidden);
    plan->redirections = NULL;
    plan->hidden = NULL;
    plan->count = plan->hidden_count = 0;
}
