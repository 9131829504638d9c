/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the slots collected by the current call and the recent refusals. The loader's lock
 * (loader_lock.h) guards both and serialises calls.
 *
 * All or nothing: every slot of the object is checked first, and slots are written only if nothing
 * stands in the way. An object whose own calls to free() routing cannot reach is refused: memory it
 * allocated from the heap could not come home, so it must keep its allocator.
 *
 * When: any time after the object's relocation. Routing sends home blocks that the object allocated
 * before. Nothing is allocated here.
 */
#include "loader/adopt/rebind.h"

#include "alloc/base/apart.h"
#include "alloc/base/options.h"
#include "alloc/heap/instance.h"
#include "loader/foreign/adopted_note.h"
#include "loader/foreign/kept_names.h"
#include "loader/foreign/known_allocators.h"
#include "loader/interpose/definers.h"
#include "loader/interpose/limit_slots.h"
#include "loader/interpose/loader_lock.h"
#include "loader/interpose/replacements.h"
#include "loader/interpose/route.h"
#include "loader/interpose/slot_policy.h"
#include "loader/interpose/slot_writes.h"
#include "loader/interpose/stubs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The slots to write. Compilers make far fewer: one or two per function, and one per table. */
#define SLOTS_MAX 1024
static struct {
    void **address;
    void *value;
    void *before;
} slots[SLOTS_MAX] HF_APART;
static size_t slots_count;

/* The state of one call. */
struct adoption {
    const struct link_map *map;
    struct hf_writer writer;
    struct hf_scope scope;
    int result; /* number of changed slots, or a negative errno */
    const char *reason;
    const char *function; /* the refused slot's function; NULL if the object itself is refused */
    void **slot;
};

/* The most recent refusals, for the report. An object is identified by its link_map, name and
 * dynamic section: an object loaded later with all three equal is the same file again. */
#define REFUSALS_MAX 32
static struct refusal {
    const struct link_map *map;
    const void *dynamic;
    uint32_t name;
    int error;
    const char *reason;
    const char *function;
    const void *slot;
} refusals[REFUSALS_MAX] HF_APART;
static size_t next_refusal;
static bool ever_adopted;

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 2166136261;
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619;
    return hash;
}

static struct refusal *refusal_of(const struct link_map *map)
{
    for (size_t i = 0; i < REFUSALS_MAX; i++)
        if (refusals[i].map == map && refusals[i].dynamic == map->l_ld &&
            refusals[i].name == hash_of(hf_dynlink_name(map)))
            return &refusals[i];
    return NULL;
}

static void refuse(struct adoption *adoption, int error, const char *reason)
{
    adoption->result = error;
    adoption->reason = reason;
}

static void refuse_slot(struct adoption *adoption, const struct hf_slot *slot, const char *function,
                        int error, const char *reason)
{
    if (adoption->result < 0)
        return;
    refuse(adoption, error, reason);
    adoption->function = function;
    adoption->slot = slot->address;
}

/* ---- collecting ---- */

/* Refuses adoption unless every slot through which the object frees memory is routed. */
static void check_release(const struct hf_slot *slot, void *context)
{
    struct adoption *adoption = context;
    const char *name = hf_routed_name(slot->function);
    if (hf_routed_is_loader(slot->function) || hf_routed_is_mapping(slot->function))
        return;
    struct hf_decision decision =
        hf_slot_decide(adoption->writer.object, HF_ROLE_ORDINARY, &adoption->scope, slot);
    if (decision.ignore || (decision.state == HF_ROUTE_CHANGED && !decision.change))
        return;
    /* A variable that holds the program's own function does not matter. */
    if (slot->kind == HF_SLOT_WORD && !decision.change)
        return;
    refuse_slot(adoption, slot, name, -EACCES,
                "a call by which the object frees memory is not routed: what it allocated from the "
                "heap could not come home");
}

/* Returns the slot's current target, for replacements that need an original. */
static void *original_of(const struct adoption *adoption, const struct hf_slot *slot, void *value)
{
    if (hf_replacement_resizes(slot->function))
        return value; /* routing's stub */
    const struct link_map *target = hf_dynlink_find(value);
    if (target != NULL && target != adoption->map && target->l_prev != NULL)
        return value;
    /* A PLT entry of the object or of the program. */
    return hf_scope_definition(&adoption->scope, hf_replacement_names.name(slot->function));
}

/* Returns whether a slot is a variable that the program has changed. For a function that resizes,
 * anything but a stub is one: check_release() has refused the other cases. */
static bool was_changed_by_program(const struct adoption *adoption, const struct hf_slot *slot,
                                   const char *name, void *value)
{
    if (hf_replacement_resizes(slot->function))
        return !hf_stub_is((enum hf_routed)hf_routed_by_name(name), value);
    return slot->kind == HF_SLOT_WORD && !hf_word_is_untouched(&adoption->scope, name, value);
}

/* Returns the replacement for a slot; NULL if the slot stays as it is, or after a refusal. */
static void *choose_replacement(struct adoption *adoption, const struct hf_slot *slot, void *value)
{
    const char *name = hf_replacement_names.name(slot->function);
    void *original = NULL;
    /* A weak function without a definition, or an adopted slot. */
    if (value == NULL || hf_replacement_is(value) || hf_limit_slots_has(value))
        return NULL;
    if (hf_slot_is_foreign(adoption->writer.object, slot->symbol,
                           hf_replacement_is_operator(slot->function))) {
        refuse_slot(adoption, slot, name, -ENOTSUP,
                    "the object asks for this function from a library other than libc: it has an "
                    "allocator of its own choice");
        return NULL;
    }
    if (was_changed_by_program(adoption, slot, name, value))
        return NULL;
    if (hf_replacement_wants_original(slot->function)) {
        original = original_of(adoption, slot, value);
        if (original == NULL) {
            refuse_slot(adoption, slot, name, -ENOTSUP,
                        "nothing in this namespace defines the function yet");
            return NULL;
        }
    }
    if (!hf_write_is_allowed(&adoption->writer, slot->address)) {
        refuse_slot(adoption, slot, name, -EACCES, "the slot lies in memory that is read-only");
        return NULL;
    }
    void *replacement = hf_replacement_for(slot->function, original);
    if (replacement == NULL)
        refuse_slot(adoption, slot, name, -ENOSPC,
                    "more allocators define this function than homefree keeps apart");
    return replacement;
}

static void collect_slot(const struct hf_slot *slot, void *context)
{
    struct adoption *adoption = context;
    void *value = __atomic_load_n(slot->address, __ATOMIC_ACQUIRE);
    void *replacement = choose_replacement(adoption, slot, value);
    if (replacement == NULL)
        return;
    if (slots_count == SLOTS_MAX) {
        refuse_slot(adoption, slot, hf_replacement_names.name(slot->function), -E2BIG,
                    "the object holds more addresses of allocating functions than expected");
        return;
    }
    slots[slots_count].address = slot->address;
    slots[slots_count].value = replacement;
    slots[slots_count++].before = value;
}

static void check_object(struct adoption *adoption)
{
    const struct hf_object *object = adoption->writer.object;
    if (adoption->map == adoption->scope.first) {
        refuse(adoption, -ENOTSUP, "this is the program itself, not a module");
    } else if (adoption->scope.base && hf_program_serves()) {
        refuse(adoption, -ENOTSUP, HF_PROGRAM_SERVES);
    } else if (hf_object_role(object) != HF_ROLE_ORDINARY) {
        refuse(adoption, -ENOTSUP,
               "libc, the C++ runtime, the dynamic linker and homefree itself cannot be adopted");
    } else if (hf_adopted_loaded(adoption->map) == NULL &&
               (hf_object_symbol(object, "malloc") != NULL ||
                hf_object_symbol(object, "free") != NULL ||
                hf_object_symbol(object, "realloc") != NULL)) {
        refuse(adoption, -ENOTSUP,
               "the object brings an allocator of its own: its calls inside need no slot");
    }
}

/* ---- writing ---- */

/* All slots of an object that need unprotecting lie in one RELRO range, so a failure shows before
 * the first slot is written. */
static void write_slots(struct adoption *adoption)
{
    hf_write_begin(false);
    for (size_t i = 0; i < slots_count && adoption->result == 0; i++)
        if (!hf_write_open(&adoption->writer, slots[i].address)) {
            refuse(adoption, adoption->writer.error, "the object's slots cannot be made writable");
            adoption->slot = slots[i].address;
        }
    for (size_t i = 0; i < slots_count && adoption->result == 0; i++)
        (void)hf_write_slot(&adoption->writer, slots[i].address, slots[i].value, slots[i].before);
    hf_write_close(&adoption->writer);
    hf_write_end();
}

static void adopt_object(struct adoption *adoption)
{
    slots_count = 0;
    check_object(adoption);
    if (adoption->result == 0)
        hf_slots_visit(adoption->writer.object, &hf_routed_names, false, check_release, adoption);
    if (adoption->result == 0)
        hf_slots_visit(adoption->writer.object, &hf_replacement_names, false, collect_slot,
                       adoption);
    if (adoption->result == 0)
        write_slots(adoption);
    struct refusal *refusal = refusal_of(adoption->map);
    if (adoption->result == 0) {
        adoption->result = (int)slots_count;
        if (refusal != NULL)
            *refusal = (struct refusal){0};
        return;
    }
    if (refusal == NULL)
        refusal = &refusals[next_refusal++ % REFUSALS_MAX];
    *refusal = (struct refusal){
        adoption->map,    adoption->map->l_ld, hash_of(hf_dynlink_name(adoption->map)),
        adoption->result, adoption->reason,    adoption->function,
        adoption->slot,
    };
}

static void run(void *context)
{
    struct adoption *adoption = context;
    const struct link_map *first[HF_NAMESPACES_MAX];
    size_t count = hf_dynlink_namespaces(first);
    struct hf_object object;
    for (size_t i = 0; i < count; i++)
        for (const struct link_map *map = first[i]; map != NULL; map = map->l_next)
            if (map == adoption->map && hf_dynlink_open(map, &object)) {
                ever_adopted = true;
                adoption->result = 0;
                adoption->scope = hf_scope_begin(first[i], i == 0);
                adoption->writer.object = &object;
                adopt_object(adoption);
                return;
            }
}

int hf_adopt(void *handle)
{
    HF_INSTANCE_FORWARD(adopt, handle);
    if (handle == NULL)
        return -EINVAL;
    if (!hf_options.route)
        return -EPERM;
    hf_route_new_objects();
    int saved_errno = errno;
    struct adoption adoption = {.map = handle, .result = -EINVAL};
    int result = hf_loader_lock_run(run, &adoption);
    errno = saved_errno;
    return result != 0 ? result : adoption.result;
}

/* ---- the report ---- */

struct reporter {
    const struct hf_object *object;
    hf_route_visitor *visit;
    void *context;
};

static void report_slot(const struct hf_slot *slot, void *context)
{
    const struct reporter *reporter = context;
    const void *value = __atomic_load_n(slot->address, __ATOMIC_ACQUIRE);
    if (hf_replacement_resizes(slot->function) ||
        (!hf_replacement_is(value) && !hf_limit_slots_has(value)))
        return;
    struct hf_route_entry entry = {
        .size = sizeof entry,
        .state = HF_ROUTE_CHANGED,
        .object = hf_dynlink_name(reporter->object->map),
        .function = hf_replacement_names.name(slot->function),
        .slot = slot->address,
    };
    reporter->visit(&entry, reporter->context);
}

/* An adopted copy's entry: whose functions lead to the heap. */
static void report_copy(const struct hf_object *object, const struct hf_adopted_note *note,
                        hf_route_visitor *visit, void *context)
{
    char text[768];
    int length = snprintf(text, sizeof text, "adopted: %u functions of", note->redirections);
    for (size_t i = 0; i < HF_ALLOCATOR_COUNT && (size_t)length < sizeof text; i++)
        if ((note->allocators >> i & 1) != 0)
            length += snprintf(text + length, sizeof text - (size_t)length, " %s",
                               hf_allocator_name((enum hf_allocator)i));
    if ((size_t)length < sizeof text)
        snprintf(text + length, sizeof text - (size_t)length, "%s%s",
                 note->release_only != 0 ? " inside are guarded (release-only): "
                                         : " inside lead to the heap",
                 note->release_only != 0 ? note->original + strlen(note->original) + 1 : "");
    const struct hf_route_entry entry = {
        .size = sizeof entry,
        .state = HF_ROUTE_CHANGED,
        .object = hf_dynlink_name(object->map),
        .reason = hf_keep_name(text),
    };
    visit(&entry, context);
}

void hf_adopt_report(const struct hf_object *object, hf_route_visitor *visit, void *context)
{
    const struct hf_adopted_note *note = hf_adopted_loaded(object->map);
    if (note != NULL)
        report_copy(object, note, visit, context);
    if (!ever_adopted)
        return;
    struct reporter reporter = {object, visit, context};
    hf_slots_visit(object, &hf_replacement_names, false, report_slot, &reporter);
    const struct refusal *refusal = refusal_of(object->map);
    if (refusal == NULL)
        return;
    struct hf_route_entry entry = {
        .size = sizeof entry,
        .state = HF_ROUTE_REFUSED,
        .object = hf_dynlink_name(object->map),
        .function = refusal->function,
        .slot = refusal->slot,
        .reason = refusal->reason,
        .error = refusal->error,
    };
    visit(&entry, context);
}
