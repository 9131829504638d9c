/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See unloaded.h. Owns, for each number of a foreign allocator, where its object lay. Entries are
 * written by whoever closes an object; two threads that do so at once write the same.
 */
#include "alloc/diagnose/unloaded.h"

#include "alloc/base/dynlink.h"
#include "alloc/owner/foreign_pages.h"

#include <errno.h>
#include <stddef.h>

/* The object of those that are gone: no link_map. */
static const char gone;

/* The dynamic section of an allocator's object, by which it is known that the object is there. */
static const void *_Atomic sections[HF_FOREIGN_MAX + 1];

bool hf_unloaded_is(const struct hf_foreign_allocator *allocator)
{
    return allocator->map == &gone;
}

/* Silent allocators alone: others' objects stay. */
static const struct hf_foreign_allocator *silent_at(unsigned number)
{
    const struct hf_foreign_allocator *allocator = hf_foreign_at(number);
    return allocator != NULL && allocator->form == HF_FREE_NONE && !hf_unloaded_is(allocator)
               ? allocator
               : NULL;
}

void hf_unloaded_before(void)
{
    for (unsigned number = 1; number <= HF_FOREIGN_MAX; number++) {
        const struct hf_foreign_allocator *allocator = silent_at(number);
        const struct link_map *map = allocator != NULL ? allocator->map : NULL;
        /* Once it is known to be gone, its link_map may not be read. */
        if (map != NULL && sections[number] == NULL)
            sections[number] = map->l_ld;
    }
}

/* The number for pages of an allocator that is gone; 0 if there is none left. An object that is
 * loaded and unloaded again has one number. */
static unsigned number_for(const struct hf_foreign_allocator *allocator)
{
    for (unsigned number = 1; number <= HF_FOREIGN_MAX; number++) {
        const struct hf_foreign_allocator *other = hf_foreign_at(number);
        if (other != NULL && hf_unloaded_is(other) && other->name == allocator->name &&
            other->object == allocator->object)
            return number;
    }
    const unsigned number = hf_foreign_reserve();
    if (number != 0)
        hf_foreign_publish(number, &(struct hf_foreign_allocator){.name = allocator->name,
                                                                  .object = allocator->object,
                                                                  .map = &gone});
    return number;
}

static void take_pages(const void *start, size_t size, void *number)
{
    (void)hf_foreign_pages_set(start, size, *(const unsigned *)number);
}

void hf_unloaded_after(void)
{
    const int saved_errno = errno;
    for (unsigned number = 1; number <= HF_FOREIGN_MAX; number++) {
        const struct hf_foreign_allocator *allocator = silent_at(number);
        if (allocator == NULL || sections[number] == NULL ||
            hf_dynlink_find_fast(sections[number]) == allocator->map)
            continue;
        unsigned own = hf_foreign_pages_bytes(number) != 0 ? number_for(allocator) : 0;
        if (own != 0)
            hf_foreign_pages_visit(number, take_pages, &own);
    }
    errno = saved_errno;
}
