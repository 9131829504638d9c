/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See adopted_note.h.
 */
#include "loader/foreign/adopted_note.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct hf_adopted_note *note_of(const struct hf_object *object)
{
    size_t size;
    const struct hf_adopted_note *note =
        hf_object_note(object, HF_ADOPTED_OWNER, HF_ADOPTED_TYPE, NULL, &size);
    return size > sizeof *note ? note : NULL;
}

const struct hf_adopted_note *hf_adopted_loaded(const struct link_map *map)
{
    struct hf_object object;
    return hf_dynlink_open(map, &object) ? note_of(&object) : NULL;
}

/* Makes the segment of slots read-only. Its bounds come from the note, so they are compared with
 * the object's segments. */
static bool protect(const struct hf_object *opened, const struct hf_adopted_note *note)
{
    struct hf_object object = *opened;
    hf_object_segments(&object);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < object.writable_count; i++)
        if (object.writable[i].start == object.base + note->slots &&
            object.writable[i].size == note->size)
            return mprotect((void *)object.writable[i].start, (note->size + page - 1) & -page,
                            PROT_READ) == 0;
    return false;
}

static atomic_bool some_loaded;

bool hf_adopted_look(const struct hf_object *object)
{
    const struct hf_adopted_note *note = note_of(object);
    if (note == NULL)
        return false;
    atomic_store_explicit(&some_loaded, true, memory_order_release);
    return protect(object, note) && note->release_only == 0;
}

bool hf_adopted_some(void)
{
    return atomic_load_explicit(&some_loaded, memory_order_acquire);
}
