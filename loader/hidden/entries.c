/*
 * See entries.h.
 */
#include "loader/hidden/entries.h"

#include <errno.h>
#include <string.h>

/* The families of the malloc family. */
enum {
    FAMILY_malloc = HF_ENTRY_ALLOCATES,
    FAMILY_free = HF_ENTRY_RELEASES,
    FAMILY_cfree = HF_ENTRY_RELEASES,
    FAMILY_free_sized = HF_ENTRY_RELEASES,
    FAMILY_free_aligned_sized = HF_ENTRY_RELEASES,
    FAMILY_calloc = HF_ENTRY_OWN,
    FAMILY_realloc = HF_ENTRY_OWN,
    FAMILY_reallocarray = HF_ENTRY_OWN,
    FAMILY_aligned_alloc = HF_ENTRY_OWN,
    FAMILY_memalign = HF_ENTRY_OWN,
    FAMILY_posix_memalign = HF_ENTRY_OWN,
    FAMILY_valloc = HF_ENTRY_OWN,
    FAMILY_pvalloc = HF_ENTRY_OWN,
    FAMILY_malloc_usable_size = HF_ENTRY_OWN
};

#define NEW_FAMILY(nothrow, aligned) NEW_FAMILY_##nothrow##_##aligned
#define NEW_FAMILY_0_0               HF_ENTRY_NEW
#define NEW_FAMILY_1_0               HF_ENTRY_ALLOCATES
#define NEW_FAMILY_0_1               HF_ENTRY_OWN
#define NEW_FAMILY_1_1               HF_ENTRY_OWN

const struct hf_entry hf_entries[] = {
#define HF_ENTRY(id, name, function, family) \
    {name, #function, HF_ALLOCATOR_##id, HF_ENTRY_##family},
#define HF_HOOK(id, name) {name, NULL, HF_ALLOCATOR_##id, HF_ENTRY_OWN},
#include "loader/hidden/entries.def"
#define HF_MALLOC_FAMILY(name, result, parameters, arguments, call) \
    {#name, #name, HF_ALLOCATOR_COUNT, (enum hf_entry_family)FAMILY_##name},
#define HF_NEW(symbol, nothrow, aligned) \
    {#symbol, #symbol, HF_ALLOCATOR_COUNT, NEW_FAMILY(nothrow, aligned)},
#define HF_DELETE(symbol, parameters, arguments, call, form, alignment) \
    {#symbol, #symbol, HF_ALLOCATOR_COUNT, HF_ENTRY_RELEASES},
#include "shim/functions.def"
};
const size_t hf_entries_count = sizeof hf_entries / sizeof hf_entries[0];

int hf_entry_names_prepare(struct hf_entry_names *names)
{
    if (hf_entries_count > HF_NAMES_MAX)
        return -E2BIG;
    for (size_t i = 0; i < hf_entries_count; i++)
        names->patterns[i] = hf_entries[i].pattern;
    names->prefixes_count = 0;
    return hf_names_prepare(&names->names, names->patterns, hf_entries_count);
}

void hf_entry_names_prefix(struct hf_entry_names *names, const char *name)
{
    static const char marker[] = "mallctl";
    const size_t length = strnlen(name, 128), most = sizeof marker - 1;
    if (length < most || length == 128 || strcmp(name + length - most, marker) != 0 ||
        strncmp(name, "_Z", 2) == 0)
        return;
    for (size_t i = 0; i < names->prefixes_count; i++)
        if (names->prefixes[i].length == length - most &&
            memcmp(names->prefixes[i].text, name, length - most) == 0)
            return;
    if (names->prefixes_count == HF_ENTRY_PREFIXES_MAX)
        return;
    names->prefixes[names->prefixes_count].text = name;
    names->prefixes[names->prefixes_count].length = length - most;
    names->prefixes[names->prefixes_count++].allocator = HF_ALLOCATOR_JEMALLOC;
}

static bool has_prefix(const struct hf_entry_names *names, const struct hf_entry *entry,
                       const char *name)
{
    const size_t length = strlen(name) - strlen(entry->pattern + 1);
    for (size_t i = 0; i < names->prefixes_count; i++)
        if (names->prefixes[i].allocator == entry->allocator &&
            names->prefixes[i].length == length &&
            memcmp(names->prefixes[i].text, name, length) == 0)
            return true;
    return false;
}

const struct hf_entry *hf_entry_named(const struct hf_entry_names *names, const char *name)
{
    const int pattern = hf_names_match(&names->names, name);
    if (pattern < 0)
        return NULL;
    const struct hf_entry *entry = &hf_entries[pattern];
    return entry->pattern[0] != '*' || entry->function == NULL || has_prefix(names, entry, name)
               ? entry
               : NULL;
}
