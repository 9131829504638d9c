/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hf_route_report(): reports for each slot of each object where it leads, by making the same
 * decision as a routing pass would make now. Owns nothing; runs under the loader's lock.
 */
#include "alloc/base/options.h"
#include "alloc/base/sized.h"
#include "alloc/heap/instance.h"
#include "loader/adopt/rebind.h"
#include "loader/foreign/adopted_note.h"
#include "loader/foreign/finding.h"
#include "loader/interpose/loader_lock.h"
#include "loader/interpose/route.h"
#include "loader/interpose/slot_policy.h"
#include "loader/interpose/stubs.h"
#include "loader/interpose/symbol_tables.h"

#include <errno.h>

struct telling {
    struct hf_route_report sums;
    hf_route_visitor *visit;
    void *context;
    const struct hf_object *object;
    enum hf_object_role role;
    struct hf_scope *scope;
};

static void tell(struct telling *telling, const struct hf_route_entry *entry)
{
    uint64_t *sums[] = {
        [HF_ROUTE_CHANGED] = &telling->sums.changed,
        [HF_ROUTE_REFUSED] = &telling->sums.refused,
        [HF_ROUTE_OUT_OF_REACH] = &telling->sums.out_of_reach,
    };
    ++*sums[entry->state];
    if (telling->visit != NULL)
        telling->visit(entry, telling->context);
}

static void tell_adopted(const struct hf_route_entry *entry, void *context)
{
    tell(context, entry);
}

static void tell_slot(const struct hf_slot *slot, void *context)
{
    struct telling *telling = context;
    struct hf_decision decision =
        hf_slot_decide(telling->object, telling->role, telling->scope, slot);
    if (decision.ignore)
        return;
    struct hf_route_entry entry = {
        .size = sizeof entry,
        .state = decision.state,
        .object = hf_dynlink_name(telling->object->map),
        .function = hf_routed_name(slot->function),
        .slot = slot->address,
        .reason = decision.reason,
    };
    /* Routing has processed this slot, yet it does not point to a stub. Report the step that
     * failed. */
    if (decision.change) {
        entry.state = HF_ROUTE_REFUSED;
        if (!hf_options.route) {
            entry.reason = "routing is off (HOMEFREE_CONF=route:off)";
        } else if (hf_stub_for(slot->function, decision.original) == NULL) {
            entry.reason = "more allocators define this function than homefree has stubs for";
            entry.error = -ENOSPC;
        } else {
            entry.reason = "the slot cannot be made writable, or was changed back since";
            entry.error = -EACCES;
        }
    }
    tell(telling, &entry);
}

static void tell_definition(const struct hf_table_entry *definition, void *context)
{
    struct telling *telling = context;
    const struct hf_route_entry entry = {
        .size = sizeof entry,
        .state = definition->routed ? HF_ROUTE_CHANGED : HF_ROUTE_REFUSED,
        .object = hf_dynlink_name(telling->object->map),
        .function = hf_routed_name(definition->function),
        .slot = definition->place,
        .reason = definition->reason,
    };
    tell(telling, &entry);
}

static void tell_object(struct telling *telling, const struct link_map *map)
{
    struct hf_object object;
    if (!hf_dynlink_open(map, &object))
        return;
    telling->object = &object;
    telling->role = hf_object_role(&object);
    struct hf_route_entry entry = {
        .size = sizeof entry,
        .state = HF_ROUTE_OUT_OF_REACH,
        .object = hf_dynlink_name(map),
    };
    switch (telling->role) {
    case HF_ROLE_NOTHING:
        return;
    case HF_ROLE_HOMEFREE:
    case HF_ROLE_SATELLITE:
        break;
    case HF_ROLE_LINKER:
        entry.reason =
            "the dynamic linker frees only what it allocated, through pointers of its own";
        tell(telling, &entry);
        break;
    case HF_ROLE_ORDINARY:
        /* Slots of other objects may point to this object's definitions, but its own calls may be
         * direct, without any slot. */
        if (hf_adopted_loaded(map) == NULL && hf_object_address(&object, "free") != NULL &&
            hf_object_address(&object, "malloc") != NULL) {
            entry.reason = "the object is an allocator: calls inside it need no slot";
            tell(telling, &entry);
        }
        entry.reason = hf_finding_remark(map);
        if (entry.reason != NULL)
            tell(telling, &entry);
        hf_slots_visit(&object, &hf_routed_names, false, tell_slot, telling);
        hf_adopt_report(&object, tell_adopted, telling);
        break;
    case HF_ROLE_RUNTIME:
        if (hf_options.route)
            hf_table_visit(&object, telling->scope->ours, tell_definition, telling);
        hf_slots_visit(&object, &hf_routed_names, true, tell_slot, telling);
        break;
    }
    telling->sums.objects++;
}

static void report(void *context)
{
    struct telling *telling = context;
    const struct link_map *first[HF_NAMESPACES_MAX];
    size_t count = hf_dynlink_namespaces(first);
    for (size_t i = 0; i < count; i++) {
        struct hf_scope scope = hf_scope_begin(first[i], i == 0);
        telling->scope = &scope;
        for (const struct link_map *map = first[i]; map != NULL; map = map->l_next)
            tell_object(telling, map);
    }
    const struct hf_route_effort effort = hf_route_effort();
    telling->sums.passes = effort.passes;
    telling->sums.nanoseconds = effort.nanoseconds;
}

int hf_route_report(struct hf_route_report *out, hf_route_visitor *visit, void *context)
{
    if (out != NULL && out->size <= sizeof(size_t))
        return -EINVAL;
    HF_INSTANCE_FORWARD(route_report, out, visit, context);
    struct telling telling = {.visit = visit, .context = context};
    int result = hf_loader_lock_run(report, &telling);
    if (result == 0 && out != NULL)
        hf_sized_copy(out, &telling.sums, sizeof telling.sums);
    return result;
}
