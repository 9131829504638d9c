/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing lasting: foreign.c holds what is published, kept_names.c the names. See members.h.
 */
#include "loader/foreign/members.h"

#include "alloc/owner/foreign.h"
#include "include/allocator_registry.h"
#include "loader/foreign/asking.h"
#include "loader/foreign/kept_names.h"
#include "loader/foreign/serving.h"

#include <string.h>

enum { MEMBERS_MAX = 16, TEXT_MAX = 64 };

typedef const struct allocator_registry *members[MEMBERS_MAX];

/* ---- what a note leads to ---- */

static bool lies_in(const struct hf_object *object, const void *address, size_t size,
                    unsigned rights)
{
    return hf_object_capacity(object, address) >= size &&
           (hf_object_protection(object, (uintptr_t)address) & rights) == rights;
}

static bool is_text(const struct hf_object *object, const char *text)
{
    if (!lies_in(object, text, 1, PF_R))
        return false;
    const size_t capacity = hf_object_capacity(object, text);
    for (size_t i = 0; i < TEXT_MAX && i < capacity; i++) {
        if (text[i] == '\0')
            return i != 0;
        if (text[i] < ' ' || text[i] > '~')
            return false;
    }
    return false;
}

static bool is_code(const struct hf_object *object, const void *function)
{
    return lies_in(object, function, 1, PF_X);
}

static bool is_code_or_none(const struct hf_object *object, const void *function)
{
    return function == NULL || is_code(object, function);
}

static bool is_member(const struct hf_object *object, const struct allocator_registry *member)
{
    return (uintptr_t)member % _Alignof(struct allocator_registry) == 0 &&
           lies_in(object, member, sizeof *member, PF_R) &&
           member->version == ALLOCATOR_REGISTRY_VERSION && member->size >= sizeof *member &&
           lies_in(object, member, member->size, PF_R) && is_text(object, member->name) &&
           (member->release == NULL || is_text(object, member->release)) &&
           is_code(object, (const void *)member->owns) &&
           is_code(object, (const void *)member->free_block) &&
           is_code(object, (const void *)member->usable_size) &&
           is_code_or_none(object, (const void *)member->resize) &&
           is_code_or_none(object, (const void *)member->ready) &&
           is_code_or_none(object, (const void *)member->trim) &&
           is_code_or_none(object, (const void *)member->statistics);
}

static size_t find(const struct hf_object *object, members found)
{
    size_t count = 0, size;
    const char *note = NULL;
    while (count < MEMBERS_MAX &&
           (note = hf_object_note(object, ALLOCATOR_REGISTRY_OWNER, ALLOCATOR_REGISTRY_TYPE, note,
                                  &size)) != NULL) {
        intptr_t number;
        if (size != sizeof number)
            continue;
        memcpy(&number, note, sizeof number);
        const struct allocator_registry *member = (const void *)(note + number);
        if (is_member(object, member))
            found[count++] = member;
    }
    return count;
}

/* ---- publishing ---- */

static unsigned publish(const struct hf_object *object, const struct allocator_registry *member,
                        bool shares)
{
    const bool denies = (member->flags & ALLOCATOR_REGISTRY_DENIES_BLOCKS) != 0;
    const unsigned number = hf_foreign_reserve();
    if (number == 0)
        return 0;
    const struct hf_foreign_allocator allocator = {
        .name = hf_keep_name(member->name),
        .object = hf_keep_name(hf_dynlink_name(object->map)),
        .map = object->map,
        .kind = HF_QUESTION_ANSWER,
        .denies = denies,
        .form = HF_FREE_PLAIN,
        .found = HF_FOUND_MEMBER,
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
    /* A pass that starts over looks again. The interpreter's own allocators are loader/host's. */
    if (count == 0 || hf_object_symbol(object, "PyMem_SetAllocator") != NULL)
        return false;
    if (hf_foreign_lives_in(object->map) || !hf_serving_pin(object))
        return true;
    for (size_t i = 0; i < count; i++) {
        const unsigned number = publish(object, found[i], count > 1);
        if (*tracked == 0 && (found[i]->flags & ALLOCATOR_REGISTRY_DENIES_BLOCKS) != 0)
            *tracked = number;
    }
    if (hf_serving(object) != HF_SERVES_PROCESS)
        hf_asking_begin();
    return true;
}
