/* SPDX-License-Identifier: BSD-2-Clause */
/* Owns nothing. See table_pages.h. */
#include "loader/interpose/table_pages.h"

#include <stddef.h>
#include <unistd.h>

/* What may lie between two tables, because the second is aligned. */
enum { GAP_MAX = 7, RANGES_MAX = 24 };

struct ranges {
    struct {
        uintptr_t start, end;
    } of[RANGES_MAX];
    size_t count;
};

static void add(struct ranges *ranges, const void *start, const void *end)
{
    if (start == NULL || end <= start || ranges->count == RANGES_MAX)
        return;
    ranges->of[ranges->count].start = (uintptr_t)start;
    ranges->of[ranges->count++].end = (uintptr_t)end;
}

static void add_sized(struct ranges *ranges, const void *start, size_t size)
{
    if (start != NULL)
        add(ranges, start, (const char *)start + size);
}

/* The header, the program headers and what those call notes. */
static void add_headers(struct ranges *ranges, const struct hf_object *object)
{
    add_sized(ranges, hf_object_header(object), sizeof(ElfW(Ehdr)));
    add_sized(ranges, object->headers, object->headers_count * sizeof *object->headers);
    for (size_t i = 0; i < object->headers_count; i++)
        if (object->headers[i].p_type == PT_NOTE)
            add_sized(ranges, (const void *)(object->base + object->headers[i].p_vaddr),
                      object->headers[i].p_memsz);
}

static void add_hashes(struct ranges *ranges, const struct hf_object *object, size_t symbols)
{
    const uint32_t *table = object->sysv_hash;
    if (table != NULL)
        add(ranges, table, table + 2 + table[0] + table[1]);
    table = object->gnu_hash;
    if (table != NULL)
        add(ranges, table,
            (const uint32_t *)((const ElfW(Addr) *)(const void *)(table + 4) + table[2]) +
                table[0] + symbols - table[1]);
}

static void add_needed_versions(struct ranges *ranges, const struct hf_object *object)
{
    const char *need = (const void *)object->needs, *end = need;
    for (size_t i = 0; i < object->needs_count; i++) {
        const ElfW(Verneed) *entry = (const void *)need;
        if (hf_object_capacity(object, entry) < sizeof *entry)
            break;
        const char *last = need + entry->vn_aux + entry->vn_cnt * sizeof(ElfW(Vernaux));
        end = last > end ? last : end;
        need += entry->vn_next;
    }
    add(ranges, object->needs, end);
}

static void add_defined_versions(struct ranges *ranges, const struct hf_object *object)
{
    uintptr_t start = 0;
    size_t count = 0;
    for (const ElfW(Dyn) *d = object->map->l_ld; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_VERDEF)
            start = d->d_un.d_ptr < object->base ? d->d_un.d_ptr + object->base : d->d_un.d_ptr;
        if (d->d_tag == DT_VERDEFNUM)
            count = d->d_un.d_val;
    }
    const char *definition = (const void *)start, *end = definition;
    for (size_t i = 0; i < count && definition != NULL; i++) {
        const ElfW(Verdef) *entry = (const void *)definition;
        if (hf_object_capacity(object, entry) < sizeof *entry)
            break;
        const char *last = definition + entry->vd_aux + entry->vd_cnt * sizeof(ElfW(Verdaux));
        end = last > end ? last : end;
        definition += entry->vd_next;
    }
    add(ranges, (const void *)start, end);
}

static void add_all(struct ranges *ranges, const struct hf_object *object)
{
    add_headers(ranges, object);
    const size_t symbols = hf_object_symbols_end(object);
    add_hashes(ranges, object, symbols);
    add_sized(ranges, object->symbols, symbols * sizeof *object->symbols);
    add_sized(ranges, object->strings, object->strings_size);
    add_sized(ranges, object->versions, symbols * sizeof *object->versions);
    add_needed_versions(ranges, object);
    add_defined_versions(ranges, object);
    add_sized(ranges, object->rela, object->rela_size);
    add_sized(ranges, object->jump_relocations, object->jump_relocations_size);
}

bool hf_table_is_apart(const struct hf_object *object, uintptr_t lowest, uintptr_t highest)
{
    const unsigned protection = hf_object_protection(object, lowest);
    if (hf_object_protection(object, highest) != protection)
        return false;
    if (protection != (PF_R | PF_X))
        return protection == PF_R;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), end = (highest & -page) + page;
    uintptr_t covered = lowest & -page;
    struct ranges ranges = {.count = 0};
    add_all(&ranges, object);
    for (size_t i = 0; i < ranges.count && covered < end;) {
        if (ranges.of[i].start <= covered + GAP_MAX && ranges.of[i].end > covered) {
            covered = ranges.of[i].end;
            i = 0;
        } else {
            i++;
        }
    }
    return covered >= end;
}
