/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The members of the registry (include/allocator_registry.h) that a file publishes, as they will be
 * once it is loaded. Owns nothing beyond a call. No lock; one thread uses one inspection.
 */
#include "include/allocator_registry.h"
#include "loader/inspect/inspect_parts.h"
#include "satellites/adopt/hidden/image.h"

#include <errno.h>
#include <string.h>

enum { TEXT_MAX = 64 };

#define FUNCTION(name, needed)                                   \
    {                                                            \
#        name, offsetof(struct allocator_registry, name), needed \
    }
static const struct {
    const char *name;
    size_t offset;
    bool needed;
} functions[] = {
    FUNCTION(owns, true),    FUNCTION(free_block, true), FUNCTION(usable_size, true),
    FUNCTION(resize, false), FUNCTION(allocate, false),  FUNCTION(ready, false),
    FUNCTION(walk, false),   FUNCTION(trim, false),      FUNCTION(statistics, false),
};
#define FLAG(name)                       \
    {                                    \
#        name, ALLOCATOR_REGISTRY_##name \
    }
static const struct {
    const char *name;
    uint64_t bit;
} flags[] = {
    FLAG(TELLS_FIRST), FLAG(TELLS_DEAD), FLAG(SLOW), FLAG(DENIES_INSIDE), FLAG(DENIES_BLOCKS),
};

/* What the word at an address will hold. */
static uint64_t word_at(const struct hf_image *image, uint64_t address)
{
    uint64_t word = hf_image_slot_value(image, address), size = 0;
    const unsigned char *bytes = word == 0 ? hf_image_at(image, address, &size) : NULL;
    if (bytes != NULL && size >= sizeof word)
        memcpy(&word, bytes, sizeof word);
    return word;
}

/* The text at an address; NULL if a member has none there. */
static const char *text_at(const struct hf_image *image, uint64_t address)
{
    uint64_t size = 0;
    const unsigned char *bytes = hf_image_at(image, address, &size);
    size = bytes == NULL ? 0 : size < TEXT_MAX ? size : TEXT_MAX;
    size_t length = 0;
    while (length < size && bytes[length] >= ' ' && bytes[length] <= '~')
        length++;
    return length > 0 && length < size && bytes[length] == '\0' ? (const char *)bytes : NULL;
}

/* Whether the functions are those of a member, in the same object; lists those that it offers. */
static bool take_functions(const struct hf_image *image, uint64_t at,
                           struct hf_inspection_member *out)
{
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        const uint64_t address = word_at(image, at + functions[i].offset);
        const struct hf_stretch *stretch = hf_image_stretch(image, address);
        if (address == 0 ? functions[i].needed : stretch == NULL || !stretch->code)
            return false;
        if (address != 0 && !functions[i].needed)
            out->offers[out->offers_count++] = functions[i].name;
    }
    return true;
}

/* Takes the structure at an address if it is a member's. Result: 0 or -ENOMEM. */
static int take(struct hf_inspection *inspection, const struct hf_image *image, uint64_t at)
{
    struct hf_inspection_member *out = &inspection->members[inspection->members_count];
    struct allocator_registry member;
    uint64_t size = 0;
    const unsigned char *bytes = hf_image_at(image, at, &size);
    if (at % _Alignof(struct allocator_registry) != 0 || bytes == NULL || size < sizeof member)
        return 0;
    memcpy(&member, bytes, sizeof member);
    const uint64_t release_at = word_at(image, at + offsetof(struct allocator_registry, release));
    const char *name =
        text_at(image, word_at(image, at + offsetof(struct allocator_registry, name)));
    const char *release = text_at(image, release_at);
    const struct hf_stretch *stretch = hf_image_stretch(image, at);
    *out = (struct hf_inspection_member){.name = NULL};
    if (member.version != ALLOCATOR_REGISTRY_VERSION || member.size < sizeof member ||
        member.size > stretch->size - (at - stretch->address) || name == NULL ||
        (release == NULL && release_at != 0) || !take_functions(image, at, out))
        return 0;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if ((member.flags & flags[i].bit) != 0)
            out->flags[out->flags_count++] = flags[i].name;
    out->name = hf_inspection_copy(inspection, name);
    out->release = release != NULL ? hf_inspection_copy(inspection, release) : NULL;
    if (out->name == NULL || (release != NULL && out->release == NULL))
        return -ENOMEM;
    inspection->members_count++;
    return 0;
}

static bool next_note(struct hf_elf *elf, size_t *cursor, struct hf_elf_note *out)
{
    return hf_elf_note(elf, ALLOCATOR_REGISTRY_OWNER, ALLOCATOR_REGISTRY_TYPE, cursor, out);
}

static uint64_t header_of(const struct hf_elf *elf)
{
    Elf64_Phdr segment;
    for (size_t cursor = 0; hf_elf_segment(elf, &cursor, &segment);)
        if (segment.p_type == PT_LOAD && segment.p_offset == 0)
            return segment.p_vaddr;
    return 0;
}

/* Where a note says that the structure will be in memory, by the numbers that will be there. */
static bool read_numbers(const struct hf_image *image, const struct hf_elf *elf,
                         const struct hf_elf_note *note, uint64_t *structure)
{
    uint64_t size = 0, numbers[2]; /* signed, but only added */
    const unsigned char *bytes = hf_image_at(image, note->address, &size);
    if (bytes == NULL || size < sizeof numbers || note->size != sizeof numbers)
        return false;
    memcpy(numbers, bytes, sizeof numbers);
    *structure = header_of(elf) + numbers[0] - numbers[1] - sizeof numbers[0];
    return true;
}

/* A member is the known allocator of its name. One with a name of its own may be any of those that
 * the file contains. */
static void mark_published(struct hf_inspection *inspection)
{
    for (size_t i = 0; i < inspection->members_count; i++) {
        const enum hf_allocator known = hf_allocator_named(inspection->members[i].name);
        for (size_t j = 0; j < inspection->allocators_count; j++)
            if (known == HF_ALLOCATOR_COUNT || known == inspection->allocators[j].allocator)
                inspection->allocators[j].published = true;
    }
}

int hf_inspect_members(struct hf_elf *elf, struct hf_inspection *inspection)
{
    struct hf_image image;
    struct hf_elf_note note;
    size_t cursor = 0;
    uint64_t structure;
    if (!next_note(elf, &cursor, &note))
        return 0;
    int result = hf_image_open(&image, elf);
    cursor = 0;
    while (result == 0 && inspection->members_count < HF_INSPECTION_MEMBERS_MAX &&
           next_note(elf, &cursor, &note))
        if (read_numbers(&image, elf, &note, &structure))
            result = take(inspection, &image, structure);
    hf_image_close(&image);
    mark_published(inspection);
    /* What cannot be understood is no member. */
    return result == -ENOMEM ? result : 0;
}
