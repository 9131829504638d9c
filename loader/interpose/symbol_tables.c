/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing: the state is in the symbol tables and in the stubs. See symbol_tables.h.
 *
 * When: in a routing pass, under the loader's lock. Other threads may be reading the table in a
 * lookup, so each entry is replaced by a single store and the pages stay readable. Nothing is
 * allocated.
 */
#include "loader/interpose/symbol_tables.h"

#include "alloc/base/fatal.h"
#include "loader/interpose/definers.h"
#include "loader/interpose/slot_writes.h"
#include "loader/interpose/table_pages.h"

#include <errno.h>
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
    if (count == 0 || !hf_table_is_apart(object, lowest, highest))
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
        if (!definition.routed && !hf_table_is_apart(object, at, at + sizeof(ElfW(Sym)) - 1))
            definition.reason = "the symbol table shares a page with code or variables";
        else if (!definition.routed)
            definition.reason = "the symbol table cannot be made writable, or was changed back";
        visit(&definition, context);
    }
}
