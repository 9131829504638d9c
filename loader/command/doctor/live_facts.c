/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See live_facts.h. A relocation names its symbol by number, so the numbers of the wanted symbols
 * are collected first.
 */
#include "loader/command/doctor/live_facts.h"

#include "alloc/base/satellite.h"
#include "loader/command/grown.h"
#include "loader/elf/elf_names.h"
#include "loader/record/live_state.h"

#include <stdlib.h>
#include <string.h>

#define RELOCATIONS_MOST (UINT64_C(256) << 20)
enum { SLOTS_MOST = 4096, BLOCK = 4096, NAME_MOST = 255 };

#define SLOT_TYPE(machine, x86, arm) ((machine) == EM_AARCH64 ? (arm) : (x86))

/* ---- the functions -------------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum hf_live_function_kind kind;
} functions[] = {
#define HF_RELEASES(name, result, parameters, arguments, call) {#name, HF_LIVE_ROUTED},
#define HF_RESIZES(name, result, parameters, arguments, call)  {#name, HF_LIVE_ROUTED},
#define HF_MEASURES(name, result, parameters, arguments, call) {#name, HF_LIVE_ROUTED},
#define HF_DELETE(symbol, ...)                                 {#symbol, HF_LIVE_OPERATOR},
#define HF_SPACE_FREES(name, stream, memory)                   {#name, HF_LIVE_ROUTED},
#define HF_SPACE_GIVES(name, memory, bytes, release)           {#name, HF_LIVE_ROUTED},
#include "shim/functions.def"
#define HF_ALLOCATING(name) {#name, HF_LIVE_ALLOCATING},
#include "loader/record/allocating_functions.def"
#undef HF_ALLOCATING
    {"mmap", HF_LIVE_MAPPING},        {"mmap64", HF_LIVE_MAPPING},    {"__mmap", HF_LIVE_MAPPING},
    {"sbrk", HF_LIVE_MAPPING},        {"syscall", HF_LIVE_MAPPING},   {"_PyRuntime", HF_LIVE_MARK},
    {HF_LIVE_INSTANCE, HF_LIVE_MARK}, {HF_LIVE_SYMBOL, HF_LIVE_MARK},
};
#define COUNT (sizeof functions / sizeof functions[0])
_Static_assert(COUNT <= HF_LIVE_FUNCTIONS_MAX, "there is a flag for each");

const char *hf_live_function_name(size_t function)
{
    return functions[function].name;
}

enum hf_live_function_kind hf_live_function_kind(size_t function)
{
    return functions[function].kind;
}

size_t hf_live_function_count(void)
{
    return COUNT;
}

/* ---- symbols -------------------------------------------------------------------------------- */

struct wanted {
    struct hf_live_facts *facts;
    struct {
        uint32_t symbol;
        uint8_t function;
    } symbols[4 * HF_LIVE_FUNCTIONS_MAX]; /* in ascending order */
    size_t count;
};

static bool is(size_t function, const char *name)
{
    return strcmp(functions[function].name, name) == 0;
}

static bool see(const struct hf_elf_symbol *symbol, size_t function, void *context)
{
    struct wanted *wanted = context;
    struct hf_live_facts *facts = wanted->facts;
    const enum hf_live_function_kind kind = functions[function].kind;
    if (symbol->defined && symbol->binding != STB_LOCAL) {
        facts->defines[function] = true;
        facts->defined_at[function] = symbol->value;
        facts->cpython = facts->cpython || is(function, "_PyRuntime");
        if (is(function, HF_LIVE_INSTANCE))
            facts->instance = symbol->value;
        else if (is(function, HF_LIVE_SYMBOL))
            facts->state = symbol->value;
    }
    if (!symbol->defined)
        facts->stands_for[function] = symbol->value;
    if (kind == HF_LIVE_MAPPING && !symbol->defined)
        facts->maps = true;
    const bool slot =
        kind == HF_LIVE_ROUTED || kind == HF_LIVE_OPERATOR || kind == HF_LIVE_ALLOCATING;
    if (!slot || (symbol->defined && facts->role != HF_LIVE_RUNTIME) ||
        wanted->count == sizeof wanted->symbols / sizeof wanted->symbols[0])
        return true;
    wanted->symbols[wanted->count].symbol = symbol->index;
    wanted->symbols[wanted->count++].function = (uint8_t)function;
    return true;
}

static bool starts_with(const char *text, const char *start)
{
    return text != NULL && strncmp(text, start, strlen(start)) == 0;
}

/* As loader/foreign/object_role.c decides. */
static enum hf_live_role role_of(const char *soname)
{
    if (starts_with(soname, "libc.so.") || starts_with(soname, "libstdc++.so.") ||
        starts_with(soname, "libc++"))
        return HF_LIVE_RUNTIME;
    if (starts_with(soname, "ld-linux") || starts_with(soname, "ld64.so"))
        return HF_LIVE_LINKER;
    return soname != NULL && hf_satellite_is_soname(soname) ? HF_LIVE_SATELLITE : HF_LIVE_ORDINARY;
}

/* ---- relocations ---------------------------------------------------------------------------- */

static int function_of(const struct wanted *wanted, uint32_t symbol)
{
    size_t low = 0, high = wanted->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (wanted->symbols[middle].symbol == symbol)
            return wanted->symbols[middle].function;
        if (wanted->symbols[middle].symbol < symbol)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

static bool add_slot(struct hf_live_facts *facts, uint64_t address, int function, uint8_t kind)
{
    for (size_t i = 0; i < facts->slots_count; i++) /* a linker may list the PLT's twice */
        if (facts->slots[i].address == address)
            return true;
    if (facts->slots_count == SLOTS_MOST)
        return true;
    struct hf_live_slot *larger = hf_grown(facts->slots, facts->slots_count, sizeof *larger);
    if (larger == NULL)
        return false;
    facts->slots = larger;
    facts->slots[facts->slots_count++] = (struct hf_live_slot){address, (uint8_t)function, kind};
    return true;
}

static bool read_relocation(const struct hf_elf *elf, const struct wanted *wanted,
                            const Elf64_Rela *relocation)
{
    const uint16_t machine = elf->header.e_machine;
    const uint32_t type = (uint32_t)ELF64_R_TYPE(relocation->r_info);
    uint8_t kind;
    if (type == SLOT_TYPE(machine, R_X86_64_JUMP_SLOT, R_AARCH64_JUMP_SLOT))
        kind = 0;
    else if (type == SLOT_TYPE(machine, R_X86_64_GLOB_DAT, R_AARCH64_GLOB_DAT))
        kind = 1;
    else if (type == SLOT_TYPE(machine, R_X86_64_64, R_AARCH64_ABS64))
        kind = 2;
    else
        return true;
    const int function = function_of(wanted, (uint32_t)ELF64_R_SYM(relocation->r_info));
    return function < 0 || add_slot(wanted->facts, relocation->r_offset, function, kind);
}

static bool read_table(struct hf_elf *elf, const struct wanted *wanted, int64_t table,
                       int64_t bytes)
{
    uint64_t address, size, offset, available;
    Elf64_Rela block[BLOCK / sizeof(Elf64_Rela)];
    if (!hf_elf_tag(elf, table, &address) || !hf_elf_tag(elf, bytes, &size) ||
        hf_elf_locate(elf, address, &offset, &available) != 0)
        return true;
    size = size < available ? size : available;
    size = size < RELOCATIONS_MOST ? size : RELOCATIONS_MOST;
    for (uint64_t done = 0; done + sizeof block[0] <= size;) {
        const uint64_t left = (size - done) / sizeof block[0];
        const size_t count =
            left < sizeof block / sizeof block[0] ? (size_t)left : sizeof block / sizeof block[0];
        if (hf_elf_read(elf, offset + done, block, count * sizeof block[0]) != 0)
            return true;
        for (size_t i = 0; i < count; i++)
            if (!read_relocation(elf, wanted, &block[i]))
                return false;
        done += count * sizeof block[0];
    }
    return true;
}

/* ---- everything ----------------------------------------------------------------------------- */

static bool prepare(struct hf_names *names)
{
    static const char *patterns[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        patterns[i] = functions[i].name;
    return hf_names_prepare(names, patterns, COUNT) == 0;
}

static bool needs_homefree(struct hf_elf *elf)
{
    const char *library;
    for (size_t cursor = 0; (library = hf_elf_needed(elf, &cursor)) != NULL;)
        if (starts_with(library, "libhomefree.so"))
            return true;
    return false;
}

bool hf_live_facts_read(struct hf_elf *elf, struct hf_live_facts *out)
{
    static struct hf_names names;
    static bool prepared;
    struct wanted wanted = {.facts = out};
    struct hf_elf_tls tls;
    *out = (struct hf_live_facts){.known = true};
    prepared = prepared || prepare(&names);
    if (!prepared)
        return false;
    const char *soname = hf_elf_tag_string(elf, DT_SONAME);
    if (soname != NULL && strnlen(soname, NAME_MOST + 1) <= NAME_MOST) {
        out->soname = strdup(soname);
        if (out->soname == NULL)
            return false;
    }
    out->role = role_of(out->soname);
    out->static_tls = hf_elf_tls(elf, &tls) && tls.initial_exec;
    out->linked = needs_homefree(elf);
    (void)hf_names_visit(&names, elf, HF_ELF_DYNSYM, see, &wanted);
    if (out->instance != 0 && out->role == HF_LIVE_ORDINARY)
        out->role = HF_LIVE_HOMEFREE;
    return out->role == HF_LIVE_HOMEFREE || out->role == HF_LIVE_LINKER || wanted.count == 0 ||
           (read_table(elf, &wanted, DT_JMPREL, DT_PLTRELSZ) &&
            read_table(elf, &wanted, DT_RELA, DT_RELASZ));
}

void hf_live_facts_free(struct hf_live_facts *facts)
{
    free(facts->soname);
    free(facts->slots);
    *facts = (struct hf_live_facts){.known = false};
}
