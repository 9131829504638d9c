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

/* Each note is looked for from the first on. */
enum { MEMBERS_MAX = 16, NOTES_MAX = 64 };

typedef const struct allocator_registry *members[MEMBERS_MAX];

static size_t find(const struct hf_object *object, members found)
{
    const char *note = NULL, *why;
    size_t count = 0, notes = 0;
    while (count < MEMBERS_MAX && notes++ < NOTES_MAX &&
           hf_member_next(object, &note, &found[count], &why))
        count += found[count] != NULL;
    return count;
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

bool hf_members_look(const struct hf_object *object, unsigned *tracked)
{
    members found;
    const size_t count = find(object, found);
    *tracked = 0;
    if (count == 0)
        return false;
    /* A pass that starts over looks again. */
    if (hf_foreign_lives_in(object->map) || !hf_serving_pin(object))
        return true;
    for (size_t i = 0; i < count; i++) {
        const bool is_tracked = *tracked == 0 && denies(found[i]);
        const unsigned recorded = is_tracked ? hf_tracking_number(object->map) : 0;
        const unsigned number = publish(object, found[i], recorded, count > 1);
        if (is_tracked)
            *tracked = number;
    }
    if (hf_serving(object) != HF_SERVES_PROCESS)
        hf_asking_begin();
    return true;
}
