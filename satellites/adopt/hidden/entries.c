/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See entries.h.
 */
#include "satellites/adopt/hidden/entries.h"

#include <errno.h>
#include <string.h>

/* Family and function of the malloc family's members. */
#define FAMILY_malloc             HF_ENTRY_ALLOCATES, "hf_malloc"
#define FAMILY_free               HF_ENTRY_RELEASES, "hf_free"
#define FAMILY_cfree              HF_ENTRY_RELEASES, "hf_free"
#define FAMILY_free_sized         HF_ENTRY_RELEASES, "hf_free"
#define FAMILY_free_aligned_sized HF_ENTRY_RELEASES, "hf_free"
#define FAMILY_calloc             HF_ENTRY_OWN, "hf_adopted_calloc"
#define FAMILY_realloc            HF_ENTRY_RESIZES, "hf_realloc"
#define FAMILY_reallocarray       HF_ENTRY_RESIZES_ARRAY, "hf_reallocarray"
#define FAMILY_aligned_alloc      HF_ENTRY_ALIGNS, "hf_aligned_alloc"
#define FAMILY_memalign           HF_ENTRY_ALIGNS, "hf_memalign"
#define FAMILY_posix_memalign     HF_ENTRY_OWN, "hf_posix_memalign"
#define FAMILY_valloc             HF_ENTRY_OWN, "hf_adopted_valloc"
#define FAMILY_pvalloc            HF_ENTRY_OWN, "hf_adopted_pvalloc"
#define FAMILY_malloc_usable_size HF_ENTRY_MEASURES, "hf_usable_size"

/* Those of the forms of operator new: nothrow, aligned. */
#define FORM_0_0 HF_ENTRY_NEW, "hf_adopted_new"
#define FORM_1_0 HF_ENTRY_ALLOCATES, "hf_malloc"
#define FORM_0_1 HF_ENTRY_NEW_ALIGNED, "hf_adopted_new_aligned"
#define FORM_1_1 HF_ENTRY_ALLOCATES_ALIGNED, "hf_adopted_malloc_aligned"

#define ROW(name, ...)               ROW_OF(name, __VA_ARGS__)
#define ROW_OF(name, family, serves) {#name, serves, HF_ALLOCATOR_COUNT, family, false},

const struct hf_entry hf_entries[] = {
#define HF_ENTRY(id, name, function, family) \
    {name, #function, HF_ALLOCATOR_##id, HF_ENTRY_##family, false},
#define HF_HOOK(id, name) {name, "hf_adopted_nothing", HF_ALLOCATOR_##id, HF_ENTRY_NOTHING, true},
#define HF_SHARED(name)   {name, "", HF_ALLOCATOR_COUNT, HF_ENTRY_OWN, false},
#define HF_SETTING(name)  {name, "", HF_ALLOCATOR_COUNT, HF_ENTRY_OWN, false},
#include "satellites/adopt/hidden/entries.def"
#define HF_MALLOC_FAMILY(name, result, parameters, arguments, call) ROW(name, FAMILY_##name)
#define HF_NEW(symbol, nothrow, aligned)                            ROW(symbol, FORM_##nothrow##_##aligned)
#define HF_DELETE(symbol, parameters, arguments, call, form, alignment) \
    ROW_OF(symbol, HF_ENTRY_RELEASES, "hf_free")
#include "shim/functions.def"
};

/* Names fit with their ends. */
#define FITS(name, serves)                                              \
    _Static_assert(sizeof(name) <= sizeof hf_entries[0].pattern &&      \
                       sizeof(serves) <= sizeof hf_entries[0].function, \
                   "hf_entry has room for " name);
#undef HF_ENTRY
#undef HF_HOOK
#undef HF_SHARED
#undef HF_SETTING
#define HF_ENTRY(id, name, function, family) FITS(name, #function)
#define HF_HOOK(id, name)                    FITS(name, "")
#define HF_SHARED(name)                      FITS(name, "")
#define HF_SETTING(name)                     FITS(name, "")
#include "satellites/adopt/hidden/entries.def"

const size_t hf_entries_count = sizeof hf_entries / sizeof hf_entries[0];

/* Code that serves both malloc() and a throwing operator new throws nothing. */
static enum hf_entry_family shared_family(enum hf_entry_family one, enum hf_entry_family other)
{
    if (one == other)
        return one;
    const enum hf_entry_family lower = one < other ? one : other;
    const enum hf_entry_family higher = one < other ? other : one;
    if ((lower == HF_ENTRY_ALLOCATES && higher == HF_ENTRY_NEW) ||
        (lower == HF_ENTRY_ALLOCATES_ALIGNED && higher == HF_ENTRY_NEW_ALIGNED))
        return lower;
    return HF_ENTRY_OWN;
}

const char *hf_entry_shared(const struct hf_entry *one, const struct hf_entry *other)
{
    static const char *const serves[] = {
        [HF_ENTRY_RELEASES] = "hf_free",
        [HF_ENTRY_ALLOCATES] = "hf_malloc",
        [HF_ENTRY_ZEROES] = "hf_adopted_zalloc",
        [HF_ENTRY_NEW] = "hf_adopted_new",
        [HF_ENTRY_ALIGNS] = "hf_memalign",
        [HF_ENTRY_ALLOCATES_ALIGNED] = "hf_adopted_malloc_aligned",
        [HF_ENTRY_NEW_ALIGNED] = "hf_adopted_new_aligned",
        [HF_ENTRY_HEAP_ALLOCATES] = "hf_adopted_heap_malloc",
        [HF_ENTRY_RESIZES] = "hf_adopted_realloc",
        [HF_ENTRY_RESIZES_ARRAY] = "hf_adopted_reallocarray",
        [HF_ENTRY_MEASURES] = "hf_usable_size",
        [HF_ENTRY_NOTHING] = "hf_adopted_nothing",
        [HF_ENTRY_OWN] = NULL,
    };
    if (one->function[0] == '\0' || other->function[0] == '\0')
        return NULL;
    if (strcmp(one->function, other->function) == 0)
        return one->function;
    const enum hf_entry_family family = shared_family(one->family, other->family);
    return serves[family];
}

static bool is_prefixed(const struct hf_entry *entry)
{
    return entry->pattern[0] == '*' && !entry->hook;
}

int hf_entry_names_prepare(struct hf_entry_names *names)
{
    names->prefixed.count = names->others.count = names->prefixes_count = 0;
    for (size_t i = 0; i < hf_entries_count; i++) {
        const struct hf_entry *entry = &hf_entries[i];
        struct hf_entry_table *table = is_prefixed(entry) ? &names->prefixed : &names->others;
        if (table->count == HF_NAMES_MAX)
            return -E2BIG;
        table->patterns[table->count] = entry->pattern + is_prefixed(entry);
        table->entries[table->count++] = entry;
    }
    const int error =
        hf_names_prepare(&names->prefixed.names, names->prefixed.patterns, names->prefixed.count);
    return error != 0 ? error
                      : hf_names_prepare(&names->others.names, names->others.patterns,
                                         names->others.count);
}

/* Functions by whose names the prefix of an allocator is known. */
static const struct {
    const char *name;
    enum hf_allocator allocator;
} markers[] = {
    {"mallctl", HF_ALLOCATOR_JEMALLOC},
    {"tc_malloc", HF_ALLOCATOR_TCMALLOC},
};

static void add_prefix(struct hf_entry_names *names, const char *text, size_t length,
                       enum hf_allocator allocator)
{
    for (size_t i = 0; i < names->prefixes_count; i++)
        if (names->prefixes[i].allocator == allocator && names->prefixes[i].length == length &&
            memcmp(names->prefixes[i].text, text, length) == 0)
            return;
    if (names->prefixes_count == HF_ENTRY_PREFIXES_MAX)
        return;
    names->prefixes[names->prefixes_count].text = text;
    names->prefixes[names->prefixes_count].length = length;
    names->prefixes[names->prefixes_count++].allocator = allocator;
}

void hf_entry_names_prefix(struct hf_entry_names *names, const char *name)
{
    const size_t length = strnlen(name, 128);
    if (length == 128 || strncmp(name, "_Z", 2) == 0)
        return;
    for (size_t i = 0; i < sizeof markers / sizeof markers[0]; i++) {
        const size_t most = strlen(markers[i].name);
        if (length >= most && strcmp(name + length - most, markers[i].name) == 0)
            add_prefix(names, name, length - most, markers[i].allocator);
    }
}

bool hf_entry_names_own(const struct hf_entry_names *names, const char *name)
{
    for (size_t i = 0; i < names->prefixes_count; i++)
        if (names->prefixes[i].length > 0 &&
            strncmp(name, names->prefixes[i].text, names->prefixes[i].length) == 0)
            return true;
    static const char *const own[] = {"je_", "mi_", "_mi_", "_ZN8tcmalloc"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strncmp(name, own[i], strlen(own[i])) == 0)
            return true;
    return false;
}

static const struct hf_entry *look_up(const struct hf_entry_table *table, const char *name)
{
    const int pattern = hf_names_match(&table->names, name);
    return pattern < 0 ? NULL : table->entries[pattern];
}

const struct hf_entry *hf_entry_named(const struct hf_entry_names *names, const char *name)
{
    for (size_t i = 0; i < names->prefixes_count; i++) {
        const size_t length = names->prefixes[i].length;
        if (strncmp(name, names->prefixes[i].text, length) != 0)
            continue;
        const struct hf_entry *entry = look_up(&names->prefixed, name + length);
        if (entry != NULL && entry->allocator == names->prefixes[i].allocator)
            return entry;
    }
    return look_up(&names->others, name);
}
