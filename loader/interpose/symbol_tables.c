/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing: the state is in the symbol tables and in the stubs. See symbol_tables.h.
 *
 * When: in a routing pass, under the loader's lock. Other threads may be reading the table in a
 * lookup, so each entry is replaced by a single store and the pages stay readable. Nothing is
 * allocated.
 */
#include "loader/interpose/symbol_tables.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/fatal.h"
#include "loader/interpose/definers.h"
#include "loader/interpose/slot_writes.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

void *hf_table_behind(enum hf_routed function, void *address)
{
    void *original = hf_stub_original(function, address);
    return original != NULL ? original : address;
}

/* The linker's symbols for the start and the end of libhomefree. */
extern char first_byte[] __asm__("__ehdr_start") __attribute__((visibility("hidden")));
extern char last_byte[] __asm__("_end") __attribute__((visibility("hidden")));

void *hf_table_address(const struct hf_object *object, const char *name)
{
    void *address = hf_object_address(object, name);
    if ((uintptr_t)address - (uintptr_t)first_byte >= (size_t)(last_byte - first_byte))
        return address; /* the common case */
    int function = hf_routed_by_name(name);
    return function >= 0 ? hf_table_behind((enum hf_routed)function, address) : address;
}

/* ---- pages of a table ---- */

/* What may lie between two tables, because the second is aligned. */
enum { GAP_MAX = 7, RANGES_MAX = 24 };

struct ranges {
    struct {
        uintptr_t start, end;
    } of[RANGES_MAX];
    size_t count;
};

static void add_range(struct ranges *ranges, const void *start, const void *end)
{
    if (start == NULL || end <= start || ranges->count == RANGES_MAX)
        return;
    ranges->of[ranges->count].start = (uintptr_t)start;
    ranges->of[ranges->count++].end = (uintptr_t)end;
}

static void add_sized(struct ranges *ranges, const void *start, size_t size)
{
    if (start != NULL)
        add_range(ranges, start, (const char *)start + size);
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
        add_range(ranges, table, table + 2 + table[0] + table[1]);
    table = object->gnu_hash;
    if (table != NULL)
        add_range(ranges, table,
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
    add_range(ranges, object->needs, end);
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
    add_range(ranges, (const void *)start, end);
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

/* Returns whether the pages from that of `lowest` to that of `highest` hold read-only data alone,
 * so that they may be made writable. They do in a read-only segment. In a segment with code, as
 * GNU's linker makes it on aarch64, they do if nothing but tables that the dynamic linker reads,
 * whose sizes are known, fills them. */
static bool is_apart(const struct hf_object *object, uintptr_t lowest, uintptr_t highest)
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

/* ---- the entries ---- */

/* One version of a function. Each version of a name has its own entry; 64 are enough for twice as
 * many as libc has. */
enum { ENTRIES_MAX = 64 };
struct entries {
    const struct hf_object *object;
    struct hf_stub_request requests[ENTRIES_MAX];
    ElfW(Sym) *symbols[ENTRIES_MAX];
    size_t count;
};

static void *address_of(const struct hf_object *object, const ElfW(Sym) *symbol)
{
    return (void *)(object->base + symbol->st_value);
}

static void add(struct entries *entries, enum hf_routed function, const ElfW(Sym) *symbol)
{
    if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx == SHN_ABS || symbol->st_value == 0 ||
        ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || entries->count == ENTRIES_MAX ||
        hf_operator_takes_all(function, address_of(entries->object, symbol)))
        return;
    entries->requests[entries->count].function = function;
    entries->requests[entries->count].original = address_of(entries->object, symbol);
    entries->symbols[entries->count++] = (ElfW(Sym) *)(uintptr_t)symbol;
}

/* Adds every version of a function. */
static void find(struct entries *entries, enum hf_routed function)
{
    const struct hf_object *object = entries->object;
    const ElfW(Sym) *symbol = hf_object_symbol(object, hf_routed_name(function));
    for (; symbol != NULL; symbol = hf_object_next_version(object, symbol))
        add(entries, function, symbol);
}

static void find_all(struct entries *entries, const struct hf_object *object, bool loader)
{
    entries->object = object;
    entries->count = 0;
    for (int i = 0; i < HF_ROUTED_madvise; i++) {
        enum hf_routed function = (enum hf_routed)i;
        if (loader || !hf_routed_is_loader(function))
            find(entries, function);
    }
}

/* ---- writing ---- */

enum { POPULATE_WRITE = 23 }; /* MADV_POPULATE_WRITE; missing in older headers */

/* In a segment with code, too: these pages have none, and SELinux allows no code in pages that were
 * written. */
static void protect_again(const struct hf_object *object, void *start, size_t size)
{
    if (mprotect(start, size, PROT_READ) != 0)
        hf_write_fail(object, "symbol table");
}

void hf_table_route(const struct hf_object *object, bool loader)
{
    static struct entries
        entries; /* guarded by the loader's lock; the stack of dlopen()'s caller may be small */
    find_all(&entries, object, loader);
    /* Drop entries that already lead to a stub. */
    size_t count = 0;
    uintptr_t lowest = UINTPTR_MAX, highest = 0;
    for (size_t i = 0; i < entries.count; i++) {
        if (hf_stub_is(entries.requests[i].function, entries.requests[i].original))
            continue;
        const uintptr_t at = (uintptr_t)entries.symbols[i];
        lowest = at < lowest ? at : lowest;
        highest = at + sizeof(ElfW(Sym)) - 1 > highest ? at + sizeof(ElfW(Sym)) - 1 : highest;
        entries.requests[count] = entries.requests[i];
        entries.symbols[count++] = entries.symbols[i];
    }
    if (count == 0 || !is_apart(object, lowest, highest))
        return;
    hf_stubs_for(entries.requests, count);
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *start = (void *)(lowest & -page);
    const size_t size = highest + 1 - (lowest & -page);
    if (mprotect(start, size, PROT_READ | PROT_WRITE) != 0)
        return;
    /* One call instead of a page fault per page; fails harmlessly before Linux 5.14. */
    (void)madvise(start, size, POPULATE_WRITE);
    for (size_t i = 0; i < count; i++)
        if (entries.requests[i].stub != NULL)
            __atomic_store_n(&entries.symbols[i]->st_value,
                             (uintptr_t)entries.requests[i].stub - object->base, __ATOMIC_RELEASE);
    protect_again(object, start, size);
}

/* ---- the report ---- */

void hf_table_visit(struct hf_object *object, bool loader, hf_table_visitor *visit, void *context)
{
    struct entries entries;
    find_all(&entries, object, loader);
    for (size_t i = 0; i < entries.count; i++) {
        struct hf_table_entry definition = {
            .function = entries.requests[i].function,
            .place = (void *const *)&entries.symbols[i]->st_value,
            .routed = hf_stub_is(entries.requests[i].function, entries.requests[i].original),
        };
        const uintptr_t at = (uintptr_t)entries.symbols[i];
        if (!definition.routed && !is_apart(object, at, at + sizeof(ElfW(Sym)) - 1))
            definition.reason = "the symbol table shares a page with code or variables";
        else if (!definition.routed)
            definition.reason = "the symbol table cannot be made writable, or was changed back";
        visit(&definition, context);
    }
}
