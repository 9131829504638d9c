/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing; see elf_names.h.
 */
#include "loader/elf/elf_names.h"

#include <errno.h>
#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

enum { KEY = 4, LONGEST = 127 };

/* The first four bytes; bytes after the end count as zero. */
static uint32_t key_of_start(const char *name)
{
    const unsigned char *byte = (const unsigned char *)name;
    if (byte[0] == '\0')
        return 0;
    if (byte[1] == '\0')
        return byte[0];
    const uint32_t two = byte[0] | (uint32_t)byte[1] << 8;
    return byte[2] == '\0' ? two : two | (uint32_t)byte[2] << 16 | (uint32_t)byte[3] << 24;
}

static uint32_t key_of_end(const char *end)
{
    uint32_t key;
    memcpy(&key, end - KEY, sizeof key);
    return key;
}

/* From the upper bits of the product, which depend on all four bytes: C++ names differ in the last
 * of them, "_ZN2", "_ZNK" and so on. At most 512. */
static size_t hash(uint32_t key, size_t size)
{
    return (key * UINT32_C(2654435761)) >> 23 & (size - 1);
}

static uint16_t *list_of(struct hf_names *names, size_t number)
{
    const char *pattern = names->patterns[number];
    const size_t length = names->length[number];
    if (pattern[0] == '*')
        return &names->ends[hash(key_of_end(pattern + 1 + length), LENGTH(names->ends))];
    /* A short whole name ends in a zero, which is part of its key. A short prefix has no such
     * key. */
    if (length >= KEY || pattern[length] == '\0')
        return &names->starts[hash(key_of_start(pattern), LENGTH(names->starts))];
    return &names->firsts[(unsigned char)pattern[0]];
}

int hf_names_prepare(struct hf_names *names, const char *const *patterns, size_t count)
{
    memset(names, 0, sizeof *names);
    if (count > HF_NAMES_MAX)
        return -E2BIG;
    names->patterns = patterns;
    names->count = count;
    /* Insert backwards, so that each list starts with its lowest number. */
    for (size_t i = count; i-- > 0;) {
        const size_t stars = strcspn(patterns[i], "*"), whole = strlen(patterns[i]);
        const bool ending = patterns[i][0] == '*';
        const size_t length = stars == whole ? whole : whole - 1;
        if (length == 0 || length > LONGEST || (ending && length < KEY) ||
            (ending ? strchr(patterns[i] + 1, '*') != NULL : stars < length))
            return -EINVAL;
        names->length[i] = (uint8_t)length;
        names->has_endings |= ending;
        uint16_t *list = list_of(names, i);
        names->next[i] = *list;
        *list = (uint16_t)(i + 1);
    }
    return 0;
}

static int lowest(int one, int other)
{
    return one < 0 ? other : other < 0 || one < other ? one : other;
}

static int match_start(const struct hf_names *names, uint16_t list, const char *name)
{
    for (size_t i = list; i != 0; i = names->next[i - 1]) {
        const char *pattern = names->patterns[i - 1];
        const size_t length = names->length[i - 1];
        if (strncmp(name, pattern, length) == 0 && (pattern[length] == '*' || name[length] == '\0'))
            return (int)i - 1;
    }
    return -1;
}

/* Mangled names are not compared with endings. */
static bool is_mangled(const char *name)
{
    return name[0] == '_' && (name[1] == 'Z' || name[1] == 'R');
}

static int match_end(const struct hf_names *names, const char *name)
{
    if (is_mangled(name))
        return -1;
    const size_t whole = strnlen(name, LONGEST + 1);
    if (whole < KEY || whole > LONGEST)
        return -1;
    const size_t list = hash(key_of_end(name + whole), LENGTH(names->ends));
    for (size_t i = names->ends[list]; i != 0; i = names->next[i - 1]) {
        const size_t length = names->length[i - 1];
        if (length <= whole &&
            memcmp(name + whole - length, names->patterns[i - 1] + 1, length) == 0)
            return (int)i - 1;
    }
    return -1;
}

int hf_names_match(const struct hf_names *names, const char *name)
{
    const uint16_t start = names->starts[hash(key_of_start(name), LENGTH(names->starts))];
    const uint16_t first = names->firsts[(unsigned char)name[0]];
    if ((start | first) == 0) /* nearly every name */
        return match_end(names, name);
    int found = lowest(match_start(names, start, name), match_start(names, first, name));
    return lowest(found, match_end(names, name));
}

/* Returns false if no name with these first four bytes matches. Nearly all of an object's names end
 * here. The first three bytes of a shorter name are not a key. */
static bool may_match(const struct hf_names *names, uint32_t word)
{
    const bool is_short = ((word - 0x010101) & ~word & 0x808080) != 0;
    const bool mangled = (word & 0xffff) == ('_' | 'Z' << 8) || (word & 0xffff) == ('_' | 'R' << 8);
    return (names->starts[hash(word, LENGTH(names->starts))] | names->firsts[word & 0xff]) != 0 ||
           (names->has_endings && !mangled) || is_short;
}

int hf_names_visit(const struct hf_names *names, struct hf_elf *elf, enum hf_elf_table table,
                   hf_names_visitor *visit, void *context)
{
    /* Names are cold, and each is looked at for a nanosecond. Less far ahead, most of the time goes
     * by waiting for them. */
    enum { AHEAD = 64 };
    struct hf_elf_symbol_view view;
    const int result = hf_elf_symbol_view(elf, table, &view);
    for (size_t i = 1; result == 0 && i < view.count; i++) {
        if (i + AHEAD < view.count)
            __builtin_prefetch(
                (const void *)((uintptr_t)view.strings + view.symbols[i + AHEAD].st_name));
        const size_t at = view.symbols[i].st_name;
        uint32_t word;
        if (at < view.strings_size && view.strings_size - at >= sizeof word) {
            memcpy(&word, view.strings + at, sizeof word);
            if (!may_match(names, word))
                continue;
        }
        const int pattern = hf_names_match(names, hf_elf_symbol_name(&view, i));
        if (pattern < 0)
            continue;
        const struct hf_elf_symbol symbol = hf_elf_symbol_at(&view, i);
        if (!visit(&symbol, (size_t)pattern, context))
            break;
    }
    return result;
}
