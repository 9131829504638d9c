/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See release_only.h.
 *
 * Why guards are sufficient. A block that is not the allocator's own can reach its code only as an
 * argument of a function that other code calls:
 * - an entry that takes blocks: it has a guard, and nothing leads into the bytes behind the guard's
 *   jump;
 * - an entry that takes none, or one of the functions below that are known to take none: whatever
 *   those do inside, they do with blocks of the allocator;
 * - another function of the allocator that is reached from outside, past all of these, such as the
 *   slow half of an inlined free: there must be none. It is one if it has an allocator's name or
 *   touches data; what is left are helpers such as a population count;
 * - code elsewhere into which an entry was inlined. That touches the allocator's data, which
 * nothing else may, but for variables that configure it.
 */
#include "satellites/adopt/hidden/release_only.h"

#include "satellites/adopt/hidden/code.h"
#include "satellites/adopt/hidden/own_data.h"
#include "satellites/adopt/hidden/scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Which argument of the heap's function is the block. Functions that are not here take none. */
static const struct {
    const char *function;
    enum hf_guard guard;
} taking[] = {
    {"hf_free", HF_GUARD_FIRST},
    {"hf_realloc", HF_GUARD_FIRST},
    {"hf_reallocarray", HF_GUARD_FIRST},
    {"hf_adopted_realloc", HF_GUARD_FIRST},
    {"hf_adopted_reallocarray", HF_GUARD_FIRST},
    {"hf_usable_size", HF_GUARD_FIRST},
    {"hf_adopted_expand", HF_GUARD_FIRST},
    {"hf_adopted_new_realloc", HF_GUARD_FIRST},
    {"hf_adopted_new_reallocn", HF_GUARD_FIRST},
    {"hf_adopted_realloc_aligned", HF_GUARD_FIRST},
    {"hf_adopted_reallocf", HF_GUARD_FIRST},
    {"hf_adopted_reallocarr", HF_GUARD_POINTED},
    {"hf_adopted_recalloc", HF_GUARD_FIRST},
    {"hf_adopted_recalloc_aligned", HF_GUARD_FIRST},
    {"hf_adopted_rezalloc", HF_GUARD_FIRST},
    {"hf_adopted_rezalloc_aligned", HF_GUARD_FIRST},
    {"hf_adopted_rallocx", HF_GUARD_FIRST},
    {"hf_adopted_xallocx", HF_GUARD_FIRST},
    {"hf_adopted_heap_realloc", HF_GUARD_SECOND},
    {"hf_adopted_heap_reallocn", HF_GUARD_SECOND},
    {"hf_adopted_heap_realloc_aligned", HF_GUARD_SECOND},
};

/*
 * Functions of mimalloc 2.x and 3.x (include/mimalloc.h) that are no entries and take no block. In
 * version 3, heaps that belong to a thread are called theaps.
 */
static const char *const harmless[] = {
    "mi_malloc_aligned_at",
    "mi_zalloc_aligned_at",
    "mi_calloc_aligned_at",
    "mi_heap_malloc_aligned_at",
    "mi_heap_zalloc_aligned_at",
    "mi_heap_calloc_aligned_at",
    "mi_theap_malloc_aligned_at",
    "mi_theap_zalloc_aligned_at",
    "mi_theap_calloc_aligned_at",
    "mi_heap_calloc_aligned",
    "mi_heap_new",
    "mi_heap_new_ex",
    "mi_heap_new_in_arena",
    "mi_heap_delete",
    "mi_heap_destroy",
    "mi_heap_set_default",
    "mi_heap_alloc_new_n",
    "mi_heap_of_new",
    "mi_theap_new",
    "mi_theap_delete",
    "mi_theap_destroy",
    "mi_theap_set_default",
    "mi_reserve_os_memory",
    "mi_reserve_os_memory_ex",
    "mi_reserve_huge_os_pages_at",
    "mi_reserve_huge_os_pages_interleave",
};

/* Variables by which a program configures its allocator: jemalloc's, with any prefix. */
static const char *const settings[] = {"malloc_conf", "malloc_message"};

struct looking {
    const struct hf_image *image;
    const struct hf_functions *functions;
    struct hf_reach *reach;
    const struct hf_entry_names *names;
    struct hf_plan *plan;
    const struct hf_references *references;
    uint8_t *kinds; /* by node: the marks below */
    struct hf_own_data own;
    bool intruded, again;
};

/* Marks of nodes, computed once. */
enum { OWN = 1, HARMLESS = 2, TOUCHES = 4, OPENED = 8, INTRUDES = 16 };

/* ---- names ---------------------------------------------------------------------------------- */

/* Compares names without what compilers append to those of a function's parts. */
static bool is_harmless(const char *name)
{
    const size_t length = strcspn(name, ".");
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        if (strlen(harmless[i]) == length && memcmp(name, harmless[i], length) == 0)
            return true;
    return false;
}

static bool is_setting(const char *name)
{
    const size_t length = strlen(name);
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        const size_t wanted = strlen(settings[i]);
        if (length >= wanted && strcmp(name + length - wanted, settings[i]) == 0)
            return true;
    }
    return false;
}

/* jemalloc's inner functions begin so, whatever its public prefix is. */
static bool is_own_name(const struct looking *looking, const char *name)
{
    return hf_entry_names_own(looking->names, name) || strncmp(name, "je_", 3) == 0;
}

static void mark_names(struct looking *looking)
{
    for (size_t i = 0; i < looking->functions->names_count; i++) {
        const struct hf_named *named = &looking->functions->names[i];
        const uint32_t node = hf_reach_node(looking->reach, named->address);
        if (node == HF_REACH_UNKNOWN || node >= looking->functions->count)
            continue;
        if (is_own_name(looking, named->name))
            looking->kinds[node] |= OWN;
        if (is_harmless(named->name))
            looking->kinds[node] |= HARMLESS;
    }
}

/* ---- guards --------------------------------------------------------------------------------- */

static enum hf_guard guard_of(const char *function)
{
    for (size_t i = 0; i < sizeof taking / sizeof taking[0]; i++)
        if (strcmp(function, taking[i].function) == 0)
            return taking[i].guard;
    return HF_GUARD_NONE;
}

static bool note_reference(uint64_t where, uint64_t target, const struct hf_function *from,
                           void *context)
{
    struct looking *looking = context;
    const struct hf_plan *plan = looking->plan;
    (void)where;
    (void)from;
    for (size_t i = 0; i < plan->count; i++)
        looking->intruded |=
            plan->redirections[i].guard != HF_GUARD_NONE &&
            target - plan->redirections[i].address - 1 < plan->redirections[i].displaced - 1;
    return !looking->intruded;
}

/* Chooses the entries that get a guard, and finds out whether anything leads into the bytes that
 * are displaced. Their own functions were looked through by hf_guard_displaced(). */
static int choose(struct looking *looking)
{
    struct hf_plan *plan = looking->plan;
    struct hf_targets targets = {0};
    uint64_t first = UINT64_MAX, end = 0, available, where;
    for (size_t i = 0; i < plan->count; i++) {
        struct hf_redirection *entry = &plan->redirections[i];
        const struct hf_function *function = hf_function_at(looking->functions, entry->address);
        const unsigned char *bytes = hf_image_at(looking->image, entry->address, &available);
        entry->guard = guard_of(entry->function);
        if (entry->guard == HF_GUARD_NONE)
            continue;
        if (function == NULL || bytes == NULL || available < function->size)
            return -ENOTSUP;
        entry->displaced = hf_guard_displaced(bytes, function->size, entry->address);
        if (entry->displaced == 0)
            return -ENOTSUP;
        first = entry->address < first ? entry->address : first;
        end = entry->address + entry->displaced;
    }
    if (first >= end)
        return -ENOTSUP;
    int error = hf_targets_open(&targets, first, end - first);
    for (size_t i = 0; error == 0 && i < plan->count; i++)
        if (plan->redirections[i].guard != HF_GUARD_NONE)
            hf_targets_add(&targets, plan->redirections[i].address + 1,
                           plan->redirections[i].displaced - 1);
    if (error == 0)
        error = hf_scan(looking->references, looking->functions, &targets, note_reference, looking,
                        &where);
    for (size_t i = 0; error == 0 && i < looking->image->pointers_count; i++)
        (void)note_reference(0, looking->image->pointers[i].to, NULL, looking);
    hf_targets_close(&targets);
    return error != 0 ? error : looking->intruded ? -ENOTSUP : 0;
}

/* ---- ways in -------------------------------------------------------------------------------- */

/* Whether a function can be called by others without harm. */
static bool is_passable(const struct looking *looking, uint32_t node)
{
    return (looking->reach->marks[node] & HF_REACH_STOP) != 0 ||
           (node < looking->functions->count && (looking->kinds[node] & HARMLESS) != 0);
}

/* Whether code that runs may be this node, and it is not the allocator's. */
static bool is_outside(const struct looking *looking, uint32_t node)
{
    if (node == HF_REACH_UNKNOWN)
        return true;
    if (hf_reach_is_in(looking->reach, node))
        return (looking->kinds[node] & OPENED) != 0;
    return hf_reach_is_open(looking->reach, node) && !is_passable(looking, node);
}

static int enclose(struct looking *looking)
{
    const int error = hf_reach_follow(looking->reach);
    return error != 0 ? error : hf_reach_enclose(looking->reach);
}

static int check_ways_in(struct looking *looking)
{
    const struct hf_reach *reach = looking->reach;
    for (size_t i = 0; i < reach->uses_count; i++)
        if (hf_own_data_is_state(reach, reach->uses[i].address))
            looking->kinds[reach->uses[i].function] |= TOUCHES;
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < reach->edges_count; i++) {
            const struct hf_edge *edge = &reach->edges[i];
            if (!hf_reach_is_in(looking->reach, edge->to) || is_passable(looking, edge->to) ||
                (looking->kinds[edge->to] & OPENED) != 0 || !is_outside(looking, edge->from))
                continue;
            if ((looking->kinds[edge->to] & (OWN | TOUCHES)) != 0)
                return -ENOTSUP;
            looking->kinds[edge->to] |= OPENED;
            again = true;
        }
    }
    return 0;
}

/* ---- data ----------------------------------------------------------------------------------- */

static bool owns(uint32_t node, const void *context)
{
    const struct looking *looking = context;
    return hf_reach_is_in(looking->reach, node) && (looking->kinds[node] & OPENED) == 0;
}

static bool find_intruder(uint64_t where, uint64_t target, const struct hf_function *from,
                          void *context)
{
    struct looking *looking = context;
    const uint32_t node =
        from != NULL ? (uint32_t)(from - looking->functions->functions) : HF_REACH_UNKNOWN;
    (void)where;
    if (!hf_own_data_has(&looking->own, target, from != NULL) ||
        (node != HF_REACH_UNKNOWN &&
         (hf_reach_is_in(looking->reach, node) || is_passable(looking, node))))
        return true;
    const struct hf_named *object =
        hf_object_at(looking->functions, hf_own_data_variable(looking->reach, target));
    if (object != NULL && is_setting(object->name))
        return true;
    if (node == HF_REACH_UNKNOWN) {
        looking->intruded = true;
        return false;
    }
    /* Nothing may lead to it; that is looked at next. */
    hf_reach_mark(looking->reach, node, HF_REACH_OUTER);
    looking->kinds[node] |= INTRUDES;
    looking->again = true;
    return true;
}

static int check_data(struct looking *looking)
{
    struct hf_targets targets = {0};
    uint64_t where;
    int error = hf_own_data_open(&looking->own, looking->reach, owns, looking);
    if (error == 0)
        error = hf_own_data_targets(&looking->own, &targets);
    if (error == 0)
        error = hf_scan(looking->references, looking->functions, &targets, find_intruder, looking,
                        &where);
    hf_targets_close(&targets);
    return error != 0 ? error : looking->intruded ? -ENOTSUP : 0;
}

/* Whether code that runs touches the allocator's data. */
static int check_intruders(struct looking *looking)
{
    if (!looking->again)
        return 0;
    int error = enclose(looking);
    if (error == 0)
        error = check_ways_in(looking);
    for (uint32_t i = 0; error == 0 && i < looking->functions->count; i++)
        if ((looking->kinds[i] & INTRUDES) != 0 && is_outside(looking, i))
            return -ENOTSUP;
    return error;
}

/* ---- the plan ------------------------------------------------------------------------------- */

/* Leaves the entries with a guard. */
static void keep_guarded(struct hf_plan *plan)
{
    size_t kept = 0;
    for (size_t i = 0; i < plan->count; i++)
        if (plan->redirections[i].guard != HF_GUARD_NONE)
            plan->redirections[kept++] = plan->redirections[i];
    plan->count = kept;
    plan->release_only = true;
    plan->drops_thread_data = false;
}

/* Functions of the allocator's that other objects could call by name. */
static int collect_names(struct looking *looking)
{
    struct hf_plan *plan = looking->plan;
    const struct hf_functions *functions = looking->functions;
    plan->hidden = calloc(functions->count + 1, sizeof *plan->hidden);
    if (plan->hidden == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < functions->count; i++)
        if (functions->functions[i].exported && hf_reach_is_in(looking->reach, i) &&
            !is_passable(looking, i) && (looking->kinds[i] & OPENED) == 0)
            plan->hidden[plan->hidden_count++] = functions->functions[i].address;
    return 0;
}

int hf_release_only_plan(struct hf_plan *plan, const struct hf_image *image,
                         const struct hf_functions *functions, struct hf_reach *reach,
                         const struct hf_entry_names *names)
{
    struct looking looking = {
        .image = image,
        .functions = functions,
        .reach = reach,
        .names = names,
        .plan = plan,
        .references = reach->references,
    };
    const size_t nodes = functions->count + functions->objects_count;
    /* Guards are written in code for x86-64 alone. */
    if (image->code != &hf_code_x86 || plan->count == 0 || reach->shared != HF_REACH_UNKNOWN)
        return -ENOTSUP;
    looking.kinds = calloc(nodes + 1, 1);
    if (looking.kinds == NULL)
        return -ENOMEM;
    mark_names(&looking);
    int error = enclose(&looking);
    if (error == 0)
        error = check_ways_in(&looking);
    if (error == 0)
        error = check_data(&looking);
    if (error == 0)
        error = check_intruders(&looking);
    if (error == 0)
        error = choose(&looking);
    if (error == 0)
        error = collect_names(&looking);
    if (error == 0)
        keep_guarded(plan);
    free(looking.kinds);
    hf_own_data_close(&looking.own);
    return error;
}
