/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing lasting: foreign.c holds what is published, kept_names.c the names. See members.h.
 */
#include "loader/foreign/members.h"

#include "alloc/base/member_notes.h"
#include "alloc/owner/foreign.h"
#include "loader/foreign/asking.h"
#include "loader/foreign/kept_names.h"
#include "loader/foreign/mmap_tracking.h"
#include "loader/foreign/serving.h"

enum { NOTES_MAX = 64 }; /* each is looked for from the first on */

void hf_members_find(const struct hf_object *object, struct hf_members *out)
{
    const char *note = NULL, *why;
    size_t notes = 0;
    *out = (struct hf_members){.count = 0};
    while (out->count < HF_MEMBERS_MAX && notes++ < NOTES_MAX &&
           hf_member_next(object, &note, &out->found[out->count], &why)) {
        if (out->found[out->count] == NULL)
            continue;
        const enum hf_allocator known = hf_allocator_named(out->found[out->count++]->name);
        if (known < HF_ALLOCATOR_COUNT)
            out->known[known] = true;
        else
            out->unnamed = true;
    }
}

static bool denies(const struct allocator_registry *member)
{
    return (member->flags & ALLOCATOR_REGISTRY_DENIES_BLOCKS) != 0;
}

/* Result: its number, or 0. `recorded`: the number under which the object's mappings are recorded
 * already, or 0. */
static __attribute__((noinline)) unsigned publish(const struct hf_object *object,
                                                  const struct allocator_registry *member,
                                                  unsigned recorded, bool shares)
{
    const unsigned number = recorded != 0 ? recorded : hf_foreign_reserve();
    if (number == 0)
        return 0;
    const struct hf_foreign_allocator allocator = {
        .name = hf_keep_name(member->name),
        .object = hf_keep_name(hf_dynlink_name(object->map)),
        .map = object->map,
        .kind = HF_QUESTION_ANSWER,
        .denies = denies(member),
        .form = HF_FREE_PLAIN,
        .serves = hf_serving(object),
        .displaced = hf_serving_is_displaced(object),
        .shares = shares,
        .question = (void *)member->owns,
        .release = (void *)member->free_block,
        .ready = member->ready,
        .realloc = member->resize,
        .usable_size = member->usable_size,
        .trim_form = member->trim != NULL ? HF_TRIM_ALL : HF_TRIM_NONE,
        .trim = (void *)member->trim,
        .trim_name = "trim",
        .statistics = member->statistics,
    };
    hf_foreign_publish(number, &allocator);
    return number;
}

unsigned hf_members_publish(const struct hf_object *object, const struct hf_members *members,
                            bool shares)
{
    unsigned tracked = 0;
    if (members->count == 0 || !hf_serving_pin(object))
        return 0;
    for (size_t i = 0; i < members->count; i++) {
        const bool is_tracked = tracked == 0 && denies(members->found[i]);
        const unsigned recorded = is_tracked ? hf_tracking_number(object->map) : 0;
        const unsigned number =
            publish(object, members->found[i], recorded, shares || members->count > 1);
        if (is_tracked)
            tracked = number;
    }
    if (hf_serving(object) != HF_SERVES_PROCESS)
        hf_asking_begin();
    return tracked;
}
