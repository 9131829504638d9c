/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the constant tables generated from known_allocators.def. No lock.
 */
#include "loader/foreign/known_allocators.h"

#include <string.h>

#define HF_ALLOCATOR(id, name)
#define HF_ALLOCATOR_SYMBOL(id, pattern)
#define HF_ALLOCATOR_STRING(id, text)
#define HF_ALLOCATOR_CALLS(id, marker, kind, question, realloc, usable_size)
#define HF_ALLOCATOR_RELEASE(id, marker, form, release)
#define HF_ALLOCATOR_DELETE(id, marker, form, name)
#define HF_ALLOCATOR_TRIM(id, marker, form, name)

#undef HF_ALLOCATOR
#define HF_ALLOCATOR(id, name) name,
static const char *const names[] = {
#include "loader/foreign/known_allocators.def"
};
#undef HF_ALLOCATOR
#define HF_ALLOCATOR(id, name)

#undef HF_ALLOCATOR_SYMBOL
#define HF_ALLOCATOR_SYMBOL(id, pattern) pattern,
const char *const hf_allocator_patterns[] = {
#include "loader/foreign/known_allocators.def"
};
#undef HF_ALLOCATOR_SYMBOL
#define HF_ALLOCATOR_SYMBOL(id, pattern) HF_ALLOCATOR_##id,
const enum hf_allocator hf_allocator_pattern_owners[] = {
#include "loader/foreign/known_allocators.def"
};
#undef HF_ALLOCATOR_SYMBOL
#define HF_ALLOCATOR_SYMBOL(id, pattern)

#undef HF_ALLOCATOR_STRING
#define HF_ALLOCATOR_STRING(id, text) {HF_ALLOCATOR_##id, text, sizeof text - 1},
const struct hf_allocator_string hf_allocator_strings[] = {
#include "loader/foreign/known_allocators.def"
};
#undef HF_ALLOCATOR_STRING
#define HF_ALLOCATOR_STRING(id, text)

#undef HF_ALLOCATOR_CALLS
#define HF_ALLOCATOR_CALLS(id, marker, kind, question, realloc, usable_size) \
    {marker, question, realloc, usable_size, HF_ALLOCATOR_##id, HF_ALLOCATOR_QUESTION_##kind},
const struct hf_allocator_calls hf_allocator_calls[] = {
#include "loader/foreign/known_allocators.def"
};
#undef HF_ALLOCATOR_CALLS
#define HF_ALLOCATOR_CALLS(id, marker, kind, question, realloc, usable_size)

#undef HF_ALLOCATOR_RELEASE
#define HF_ALLOCATOR_RELEASE(id, marker, form, release) \
    {marker, release, HF_ALLOCATOR_##id, HF_ALLOCATOR_FORM_##form},
const struct hf_allocator_release hf_allocator_releases[] = {
#include "loader/foreign/known_allocators.def"
};
#undef HF_ALLOCATOR_RELEASE
#define HF_ALLOCATOR_RELEASE(id, marker, form, release)

#undef HF_ALLOCATOR_DELETE
#define HF_ALLOCATOR_DELETE(id, marker, form, name) \
    {marker, name, HF_ALLOCATOR_##id, HF_ALLOCATOR_DELETE_##form},
const struct hf_allocator_delete hf_allocator_deletes[] = {
#include "loader/foreign/known_allocators.def"
};
#undef HF_ALLOCATOR_DELETE
#define HF_ALLOCATOR_DELETE(id, marker, form, name)

#undef HF_ALLOCATOR_TRIM
#define HF_ALLOCATOR_TRIM(id, marker, form, name) \
    {marker, name, HF_ALLOCATOR_##id, HF_ALLOCATOR_TRIM_##form},
const struct hf_allocator_trim hf_allocator_trims[] = {
#include "loader/foreign/known_allocators.def"
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
const size_t hf_allocator_patterns_count = COUNT(hf_allocator_patterns);
const size_t hf_allocator_strings_count = COUNT(hf_allocator_strings);
const size_t hf_allocator_calls_count = COUNT(hf_allocator_calls);
const size_t hf_allocator_releases_count = COUNT(hf_allocator_releases);
const size_t hf_allocator_trims_count = COUNT(hf_allocator_trims);
const size_t hf_allocator_deletes_count = COUNT(hf_allocator_deletes);

const char *hf_allocator_name(enum hf_allocator allocator)
{
    return names[allocator];
}

enum hf_allocator hf_allocator_named(const char *name)
{
    enum hf_allocator known = 0;
    while (known < HF_ALLOCATOR_COUNT && strcmp(names[known], name) != 0)
        known++;
    return known;
}

size_t hf_allocator_prefix(const char *pattern, const char *symbol)
{
    if (pattern[0] != '*')
        return 0;
    const size_t whole = strlen(symbol), rest = strlen(pattern + 1);
    return whole > rest ? whole - rest : 0;
}

bool hf_allocator_function(char *out, size_t capacity, const char *name, const char *prefix,
                           size_t length)
{
    if (name[0] == '*')
        name++;
    else
        length = 0;
    const size_t rest = strlen(name) + 1;
    if (length > capacity || rest > capacity - length)
        return false;
    if (length != 0)
        memcpy(out, prefix, length);
    memcpy(out + length, name, rest);
    return true;
}

bool hf_allocator_strings_all(const bool found[HF_ALLOCATOR_COUNT])
{
    for (size_t i = 0; i < hf_allocator_strings_count; i++)
        if (!found[hf_allocator_strings[i].allocator])
            return false;
    return true;
}
