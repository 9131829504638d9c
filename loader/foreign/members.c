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

enum { MEMBERS_MAX = 16, NOTES_MAX = 64 }; /* each note is looked for from the first on */

struct walk {
    const struct hf_object *object;
    const char *note;
    size_t notes, members;
};

/* Returns the next member, or NULL. Members are not kept: the stack is dlopen()'s caller's. */
static const struct allocator_registry *next_member(struct walk *walk)
{
    const struct allocator_registry *member = NULL;
    const char *why;
    while (member == NULL && walk->members < MEMBERS_MAX && walk->notes++ < NOTES_MAX)
        if (!hf_member_next(walk->object, &walk->note, &member, &why))
            return NULL;
    walk->members += member != NULL;
    return member;
}

void hf_members_find(const struct hf_object *object, struct hf_members *out)
{
    struct walk walk = {.object = object};
    const struct allocator_registry *member;
    *out = (struct hf_members){.count = 0};
    while ((member = next_member(&walk)) != NULL) {
        const enum hf_allocator known = hf_allocator_named(member->name);
        if (known < HF_ALLOCATOR_COUNT)
            out->known[known] = true;
        else
            out->unnamed = true;
    }
    out->count = walk.members;
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
    struct walk walk = {.object = object};
    const struct allocator_registry *member;
    while ((member = next_member(&walk)) != NULL) {
        const bool is_tracked = tracked == 0 && denies(member);
        const unsigned recorded = is_tracked ? hf_tracking_number(object->map) : 0;
        const unsigned number = publish(object, member, recorded, shares || members->count > 1);
        if (is_tracked)
            tracked = number;
    }
    if (hf_serving(object) != HF_SERVES_PROCESS)
        hf_asking_begin();
    return tracked;
}
