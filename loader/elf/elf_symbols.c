/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads symbols and their versions. Owns nothing; the tables are parts of the struct hf_elf. See
 * elf_file.h.
 */
#include "loader/elf/elf_file.h"

#include <errno.h>
#include <string.h>

/* Version tables do not record their size; no linker produces larger ones. */
#define VERSIONS_MAX  (UINT64_C(1) << 18)
#define VERSION_INDEX 0x7fff /* bits of a versym that hold the index; the other bit is "hidden" */

/* ---- the number of dynamic symbols ---------------------------------------------------------- */

/* Reads words of the file in blocks, which are small: routing reads files on stacks of 16 KiB. */
struct words {
    struct hf_elf *elf;
    uint64_t offset, end; /* offset of the next block; the end */
    uint32_t block[256];
    size_t at, count;
};

static bool next_word(struct words *words, uint32_t *out)
{
    if (words->at == words->count) {
        uint64_t size = (words->end - words->offset) & ~UINT64_C(3);
        if (size > sizeof words->block)
            size = sizeof words->block;
        if (size == 0 || hf_elf_read(words->elf, words->offset, words->block, size) != 0)
            return false;
        words->offset += size;
        words->at = 0;
        words->count = size / sizeof words->block[0];
    }
    *out = words->block[words->at++];
    return true;
}

/* DT_GNU_HASH covers the symbols from its first index to the end. Returns 0 if it covers none or is
 * damaged. */
static uint64_t count_by_gnu_hash(struct hf_elf *elf, uint64_t address)
{
    struct {
        uint32_t buckets, first, bloom, shift;
    } head;
    uint64_t offset, available;
    if (hf_elf_locate(elf, address, &offset, &available) != 0 || available < sizeof head ||
        hf_elf_read(elf, offset, &head, sizeof head) != 0)
        return 0;
    const uint64_t buckets = sizeof head + head.bloom * UINT64_C(8);
    const uint64_t chains = buckets + head.buckets * UINT64_C(4);
    if (chains > available)
        return 0;

    struct words words = {.elf = elf, .offset = offset + buckets, .end = offset + chains};
    uint32_t last = 0;
    for (uint32_t word; next_word(&words, &word);)
        last = word > last ? word : last;
    if (last < head.first || last == 0)
        return 0;
    const uint64_t skip = (last - head.first) * UINT64_C(4);
    if (skip > available - chains)
        return 0;
    words = (struct words){.elf = elf, .offset = offset + chains + skip, .end = offset + available};
    for (uint32_t word; next_word(&words, &word); last++)
        if ((word & 1) != 0)
            return UINT64_C(1) + last;
    return 0;
}

static uint64_t count_by_hash(struct hf_elf *elf, uint64_t address)
{
    uint32_t head[2];
    uint64_t offset, available;
    if (hf_elf_locate(elf, address, &offset, &available) != 0 || available < sizeof head ||
        hf_elf_read(elf, offset, head, sizeof head) != 0)
        return 0;
    return head[1];
}

static uint64_t count_by_section(struct hf_elf *elf, uint64_t address)
{
    Elf64_Shdr section;
    for (size_t cursor = 0; hf_elf_section(elf, &cursor, &section, NULL);)
        if (section.sh_type == SHT_DYNSYM && section.sh_addr == address)
            return section.sh_size / sizeof(Elf64_Sym);
    return 0;
}

/* The words of a table of relocations, six for each entry. The third and the fourth, the halves of
 * r_info, are the type and the symbol. */
enum { RELOCATION_WORDS = 6, TYPE_WORD = 2, SYMBOL_WORD = 3, RELOCATION_TABLES = 2 };

static struct words relocations(struct hf_elf *elf, size_t table)
{
    static const struct {
        int64_t address, size;
    } tables[RELOCATION_TABLES] = {{DT_RELA, DT_RELASZ}, {DT_JMPREL, DT_PLTRELSZ}};
    struct words words = {.elf = elf};
    uint64_t address, size, available;
    if (hf_elf_tag(elf, tables[table].address, &address) &&
        hf_elf_tag(elf, tables[table].size, &size) &&
        hf_elf_locate(elf, address, &words.offset, &available) == 0)
        words.end = words.offset + (size < available ? size : available);
    else
        words.offset = 0;
    return words;
}

/* One more than the largest index in a relocation. */
static uint64_t count_by_relocations(struct hf_elf *elf)
{
    uint64_t count = 0;
    for (size_t table = 0; table < RELOCATION_TABLES; table++) {
        struct words words = relocations(elf, table);
        uint32_t word;
        for (size_t i = 0; next_word(&words, &word); i = (i + 1) % RELOCATION_WORDS)
            if (i == SYMBOL_WORD && word >= count)
                count = word + UINT64_C(1);
    }
    return count;
}

bool hf_elf_has_relocation(struct hf_elf *elf, uint32_t type)
{
    for (size_t table = 0; table < RELOCATION_TABLES; table++) {
        struct words words = relocations(elf, table);
        uint32_t word;
        for (size_t i = 0; next_word(&words, &word); i = (i + 1) % RELOCATION_WORDS)
            if (i == TYPE_WORD && word == type)
                return true;
    }
    return false;
}

bool hf_elf_tls(struct hf_elf *elf, struct hf_elf_tls *out)
{
    uint64_t flags = 0;
    Elf64_Phdr segment;
    memset(out, 0, sizeof *out);
    if (hf_elf_tag(elf, DT_FLAGS, &flags))
        out->initial_exec = (flags & DF_STATIC_TLS) != 0;
    /* GNU's linker sets no such flag for aarch64. */
    if (elf->header.e_machine == EM_AARCH64)
        out->initial_exec |= hf_elf_has_relocation(elf, R_AARCH64_TLS_TPREL);
    for (size_t cursor = 0; hf_elf_segment(elf, &cursor, &segment);)
        if (segment.p_type == PT_TLS) {
            out->size = segment.p_memsz;
            out->alignment = segment.p_align;
            break;
        }
    return out->size != 0 || out->initial_exec;
}

/* ---- tables --------------------------------------------------------------------------------- */

static int load_dynsym(struct hf_elf *elf)
{
    struct hf_elf_part *part = &elf->parts[HF_ELF_PART_DYNSYM];
    if (part->tried)
        return part->result;
    part->tried = true;
    part->result = hf_elf_dynamic(elf);
    if (part->result != 0)
        return part->result;

    uint64_t address, hash, offset, available, value;
    if (!hf_elf_tag(elf, DT_SYMTAB, &address))
        return part->result = -ENOENT;
    if (hf_elf_tag(elf, DT_SYMENT, &value) && value != sizeof(Elf64_Sym))
        return part->result = hf_elf_fail(elf, -ENOEXEC, "the dynamic symbols have a wrong size");
    if (hf_elf_locate(elf, address, &offset, &available) != 0)
        return part->result =
                   hf_elf_fail(elf, -ENOEXEC, "the dynamic symbols lie outside the file");
    uint64_t count = 0;
    if (hf_elf_tag(elf, DT_HASH, &hash))
        count = count_by_hash(elf, hash);
    if (count == 0 && hf_elf_tag(elf, DT_GNU_HASH, &hash))
        count = count_by_gnu_hash(elf, hash);
    if (count == 0)
        count = count_by_section(elf, address);
    if (count == 0)
        count = count_by_relocations(elf);
    if (count > available / sizeof(Elf64_Sym))
        return part->result =
                   hf_elf_fail(elf, -ENOEXEC, "the dynamic symbols lie outside the file");
    if (hf_elf_strings(elf) == NULL && count > 1)
        return part->result = hf_elf_fail(elf, -ENOEXEC, "the dynamic symbols have no names");
    return hf_elf_load(elf, HF_ELF_PART_DYNSYM, offset, count * sizeof(Elf64_Sym));
}

static int load_symtab(struct hf_elf *elf)
{
    struct hf_elf_part *part = &elf->parts[HF_ELF_PART_SYMTAB];
    if (part->tried)
        return part->result;
    part->tried = true;
    part->result = -ENOENT;
    Elf64_Shdr section, strings;
    bool found = false;
    for (size_t cursor = 0; !found && hf_elf_section(elf, &cursor, &section, NULL);)
        found = section.sh_type == SHT_SYMTAB;
    if (!found)
        return part->result;
    size_t cursor = section.sh_link;
    if (section.sh_entsize != sizeof(Elf64_Sym) || !hf_elf_section(elf, &cursor, &strings, NULL) ||
        strings.sh_type != SHT_STRTAB)
        return part->result = hf_elf_fail(elf, -ENOEXEC, "the symbol table's header is damaged");
    int result = hf_elf_load(elf, HF_ELF_PART_STRTAB, strings.sh_offset, strings.sh_size);
    if (result != 0)
        return part->result = result;
    return hf_elf_load(elf, HF_ELF_PART_SYMTAB, section.sh_offset,
                       section.sh_size / sizeof(Elf64_Sym) * sizeof(Elf64_Sym));
}

size_t hf_elf_symbol_count(struct hf_elf *elf, enum hf_elf_table table)
{
    const bool dynamic = table == HF_ELF_DYNSYM;
    const int result = dynamic ? load_dynsym(elf) : load_symtab(elf);
    const struct hf_elf_part *part = &elf->parts[dynamic ? HF_ELF_PART_DYNSYM : HF_ELF_PART_SYMTAB];
    return result == 0 ? part->size / sizeof(Elf64_Sym) : 0;
}

/* ---- versions ------------------------------------------------------------------------------- */

/* The meaning of a version index. */
struct version {
    const char *name, *library;
};

static const char *string_at(const struct hf_elf_part *strings, uint64_t index)
{
    return strings != NULL && index < strings->size ? (const char *)strings->data + index : NULL;
}

/* Reads a version table into its part. Result 0, with an empty part, if there is none. */
static int load_versions_table(struct hf_elf *elf, enum hf_elf_part_name name, int64_t tag)
{
    struct hf_elf_part *part = &elf->parts[name];
    uint64_t address, offset, available;
    if (part->tried)
        return part->result;
    part->tried = true;
    part->result = 0;
    if (!hf_elf_tag(elf, tag, &address))
        return 0;
    if (hf_elf_locate(elf, address, &offset, &available) != 0)
        return part->result = hf_elf_fail(elf, -ENOEXEC, "the versions lie outside the file");
    return hf_elf_load(elf, name, offset, available < VERSIONS_MAX ? available : VERSIONS_MAX);
}

/* Copies the structure at `at`; returns false if it is not inside the table. */
static bool take(const struct hf_elf_part *part, uint64_t at, void *out, size_t size)
{
    if (part->size < size || at > part->size - size)
        return false;
    memcpy(out, part->data + at, size);
    return true;
}

/* Receives each version of a walk. False ends the walk. */
typedef bool version_step(struct hf_elf *elf, uint16_t index, const char *library, const char *name,
                          bool needed, void *context);

/* The chains are offsets from a hostile file and may be cyclic: `left` limits their length to the
 * number of entries that fit into the table. */
static int walk_needed(struct hf_elf *elf, version_step *step, void *context)
{
    const struct hf_elf_part *part = &elf->parts[HF_ELF_PART_VERNEED],
                             *strings = hf_elf_strings(elf);
    int result = load_versions_table(elf, HF_ELF_PART_VERNEED, DT_VERNEED);
    if (result != 0 || part->size == 0)
        return result;
    size_t left = part->size / sizeof(Elf64_Verneed);
    for (uint64_t at = 0;;) {
        Elf64_Verneed need;
        if (left-- == 0 || !take(part, at, &need, sizeof need) || need.vn_version != 1)
            return hf_elf_fail(elf, -ENOEXEC, "the versions needed are damaged");
        const char *library = string_at(strings, need.vn_file);
        uint64_t inner = at + need.vn_aux;
        for (uint16_t i = 0; i < need.vn_cnt; i++) {
            Elf64_Vernaux version;
            if (left-- == 0 || !take(part, inner, &version, sizeof version))
                return hf_elf_fail(elf, -ENOEXEC, "the versions needed are damaged");
            if (!step(elf, version.vna_other & VERSION_INDEX, library,
                      string_at(strings, version.vna_name), true, context))
                return 1;
            if (version.vna_next == 0)
                break;
            inner += version.vna_next;
        }
        if (need.vn_next == 0)
            return 0;
        at += need.vn_next;
    }
}

static int walk_defined(struct hf_elf *elf, version_step *step, void *context)
{
    const struct hf_elf_part *part = &elf->parts[HF_ELF_PART_VERDEF],
                             *strings = hf_elf_strings(elf);
    int result = load_versions_table(elf, HF_ELF_PART_VERDEF, DT_VERDEF);
    if (result != 0 || part->size == 0)
        return result;
    size_t left = part->size / sizeof(Elf64_Verdef);
    for (uint64_t at = 0;;) {
        Elf64_Verdef definition;
        Elf64_Verdaux name;
        if (left-- == 0 || !take(part, at, &definition, sizeof definition) ||
            definition.vd_version != 1 || !take(part, at + definition.vd_aux, &name, sizeof name))
            return hf_elf_fail(elf, -ENOEXEC, "the versions defined are damaged");
        /* The base version names the file itself. */
        if ((definition.vd_flags & VER_FLG_BASE) == 0 &&
            !step(elf, definition.vd_ndx & VERSION_INDEX, NULL, string_at(strings, name.vda_name),
                  false, context))
            return 1;
        if (definition.vd_next == 0)
            return 0;
        at += definition.vd_next;
    }
}

static int walk(struct hf_elf *elf, version_step *step, void *context)
{
    int result = hf_elf_dynamic(elf);
    if (result != 0)
        return result == -ENOENT ? 0 : result;
    result = walk_needed(elf, step, context);
    if (result == 0)
        result = walk_defined(elf, step, context);
    return result == 1 ? 0 : result;
}

struct visit {
    hf_elf_version_visitor *visit;
    void *context;
};

static bool visit_version(struct hf_elf *elf, uint16_t index, const char *library, const char *name,
                          bool needed, void *context)
{
    const struct visit *visit = context;
    (void)elf;
    (void)index;
    return name == NULL || (needed && library == NULL) ||
           visit->visit(library, name, needed, visit->context);
}

int hf_elf_versions(struct hf_elf *elf, hf_elf_version_visitor *visit, void *context)
{
    struct visit step = {visit, context};
    return walk(elf, visit_version, &step);
}

static bool note_version(struct hf_elf *elf, uint16_t index, const char *library, const char *name,
                         bool needed, void *context)
{
    (void)needed;
    (void)context;
    struct version *table = (struct version *)(void *)elf->parts[HF_ELF_PART_VERSIONS].data;
    table[index] = (struct version){name, library};
    return true;
}

/* Reads versym and fills the table of indices. */
static int load_symbol_versions(struct hf_elf *elf)
{
    struct hf_elf_part *part = &elf->parts[HF_ELF_PART_VERSYM];
    uint64_t address, offset, available;
    if (part->tried)
        return part->result;
    part->tried = true;
    part->result = 0;
    if (!hf_elf_tag(elf, DT_VERSYM, &address))
        return 0;
    const uint64_t size = hf_elf_symbol_count(elf, HF_ELF_DYNSYM) * sizeof(uint16_t);
    if (hf_elf_locate(elf, address, &offset, &available) != 0 || size > available)
        return part->result =
                   hf_elf_fail(elf, -ENOEXEC, "the symbols' versions lie outside the file");
    int result = hf_elf_load(elf, HF_ELF_PART_VERSYM, offset, size);
    if (result == 0)
        result =
            hf_elf_reserve(elf, HF_ELF_PART_VERSIONS, (VERSION_INDEX + 1) * sizeof(struct version));
    if (result == 0)
        result = walk(elf, note_version, NULL);
    return part->result = result;
}

static void set_version(const struct hf_elf *elf, struct hf_elf_symbol *symbol)
{
    const struct hf_elf_part *versym = &elf->parts[HF_ELF_PART_VERSYM],
                             *versions = &elf->parts[HF_ELF_PART_VERSIONS];
    uint16_t index;
    if (versions->data == NULL ||
        !take(versym, symbol->index * sizeof index, &index, sizeof index) ||
        (index & VERSION_INDEX) <= VER_NDX_GLOBAL)
        return;
    struct version version;
    if (!take(versions, (index & VERSION_INDEX) * sizeof version, &version, sizeof version))
        return;
    symbol->version = version.name;
    symbol->library = symbol->defined ? NULL : version.library;
}

/* ---- symbols -------------------------------------------------------------------------------- */

int hf_elf_symbol_view(struct hf_elf *elf, enum hf_elf_table table, struct hf_elf_symbol_view *out)
{
    const bool dynamic = table == HF_ELF_DYNSYM;
    const int result = dynamic ? load_dynsym(elf) : load_symtab(elf);
    if (result != 0)
        return result;
    const struct hf_elf_part *part = &elf->parts[dynamic ? HF_ELF_PART_DYNSYM : HF_ELF_PART_SYMTAB],
                             *strings =
                                 &elf->parts[dynamic ? HF_ELF_PART_DYNSTR : HF_ELF_PART_STRTAB];
    out->symbols = (const Elf64_Sym *)(const void *)part->data;
    out->count = part->size / sizeof *out->symbols;
    out->strings = (const char *)strings->data;
    out->strings_size = strings->size;
    return 0;
}

struct hf_elf_symbol hf_elf_symbol_at(const struct hf_elf_symbol_view *view, size_t index)
{
    const Elf64_Sym *symbol = &view->symbols[index];
    return (struct hf_elf_symbol){
        .name = hf_elf_symbol_name(view, index),
        .value = symbol->st_value,
        .size = symbol->st_size,
        .index = (uint32_t)index,
        .section = symbol->st_shndx,
        .type = ELF64_ST_TYPE(symbol->st_info),
        .binding = ELF64_ST_BIND(symbol->st_info),
        .visibility = ELF64_ST_VISIBILITY(symbol->st_other),
        .defined = symbol->st_shndx != SHN_UNDEF,
    };
}

int hf_elf_symbols(struct hf_elf *elf, enum hf_elf_table table, hf_elf_symbol_visitor *visit,
                   void *context)
{
    /* Each name is in its own cache line, usually a cold one: prefetch it. */
    enum { AHEAD = 8 };
    struct hf_elf_symbol_view view;
    int result = hf_elf_symbol_view(elf, table, &view);
    if (result == 0 && table == HF_ELF_DYNSYM)
        result = load_symbol_versions(elf);
    for (size_t i = 1; result == 0 && i < view.count; i++) {
        if (i + AHEAD < view.count)
            __builtin_prefetch(hf_elf_symbol_name(&view, i + AHEAD));
        struct hf_elf_symbol symbol = hf_elf_symbol_at(&view, i);
        if (table == HF_ELF_DYNSYM)
            set_version(elf, &symbol);
        if (!visit(&symbol, context))
            break;
    }
    return result;
}
