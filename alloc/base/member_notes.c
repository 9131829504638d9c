/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing; takes no lock. See member_notes.h.
 */
#include "alloc/base/member_notes.h"

#include "alloc/base/maps.h"

#include <string.h>

enum { TEXT_MAX = 64 };

static bool lies_in(const struct hf_object *object, const void *address, size_t size,
                    unsigned rights)
{
    return hf_object_capacity(object, address) >= size &&
           (hf_object_protection(object, (uintptr_t)address) & rights) == rights;
}

static bool is_text(const struct hf_object *object, const char *at)
{
    char text[TEXT_MAX];
    size_t size = lies_in(object, at, 1, PF_R) ? hf_object_capacity(object, at) : 0;
    size = size < sizeof text ? size : sizeof text;
    if (!hf_maps_read(at, text, size))
        return false;
    for (size_t i = 0; i < size; i++) {
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

static bool are_code(const struct hf_object *object, const struct allocator_registry *member)
{
    const void *const may_be_null[] = {
        (const void *)member->resize, (const void *)member->allocate,
        (const void *)member->ready,  (const void *)member->walk,
        (const void *)member->trim,   (const void *)member->statistics,
    };
    for (size_t i = 0; i < sizeof may_be_null / sizeof may_be_null[0]; i++)
        if (may_be_null[i] != NULL && !is_code(object, may_be_null[i]))
            return false;
    return is_code(object, (const void *)member->owns) &&
           is_code(object, (const void *)member->free_block) &&
           is_code(object, (const void *)member->usable_size);
}

/* The rule that a structure breaks, or NULL. A segment may go on behind the end of its file, where
 * nothing can be read. */
static const char *broken(const struct hf_object *object, const struct allocator_registry *at)
{
    struct allocator_registry copy;
    const struct allocator_registry *const member = &copy;
    if ((uintptr_t)at % _Alignof(struct allocator_registry) != 0 ||
        !lies_in(object, at, sizeof copy, PF_R) || !hf_maps_read(at, &copy, sizeof copy))
        return "the structure lies aligned in a readable segment of the object that publishes it";
    if (member->version != ALLOCATOR_REGISTRY_VERSION)
        return "version is ALLOCATOR_REGISTRY_VERSION";
    if (member->size < sizeof *member || !lies_in(object, at, member->size, PF_R))
        return "size is sizeof(struct allocator_registry), as the member was compiled";
    if (!is_text(object, member->name))
        return "name is of at most 63 bytes, printable ASCII";
    if (member->release != NULL && !is_text(object, member->release))
        return "release is NULL, or of at most 63 bytes, printable ASCII";
    if (!are_code(object, member))
        return "all of its functions lie in the object that publishes them, and owns, free_block "
               "and usable_size are not NULL";
    return NULL;
}

bool hf_member_next(const struct hf_object *object, const char **note,
                    const struct allocator_registry **member, const char **why)
{
    size_t size;
    uintptr_t numbers[2]; /* signed, but only added */
    *note = hf_object_note(object, ALLOCATOR_REGISTRY_OWNER, ALLOCATOR_REGISTRY_TYPE, *note, &size);
    if (*note == NULL)
        return false;
    *member = NULL;
    *why = "the note's contents are two numbers of a pointer's size";
    if (size != sizeof numbers)
        return true;
    memcpy(numbers, *note, sizeof numbers);
    const struct allocator_registry *found =
        (const void *)((uintptr_t)hf_object_header(object) + numbers[0] - numbers[1] -
                       sizeof numbers[0]);
    *why = broken(object, found);
    if (*why == NULL)
        *member = found;
    return true;
}
