/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See elf_object.h. Headers and symbols are read in blocks of the file's own layout, and each field
 * is extracted by its offset and width in that layout.
 */
#include "loader/elf/elf_object.h"

#include <errno.h>
#include <string.h>

enum { BLOCK = 4096 };

/* ---- fields --------------------------------------------------------------------------------- */

static bool is_wide(const struct hf_elf *elf)
{
    return elf->header.e_ident[EI_CLASS] == ELFCLASS64;
}

static uint64_t number(const struct hf_elf *elf, const unsigned char *bytes, size_t width)
{
    const bool big = elf->header.e_ident[EI_DATA] == ELFDATA2MSB;
    uint64_t value = 0;
    for (size_t i = 0; i < width; i++)
        value = value << 8 | bytes[big ? i : width - 1 - i];
    return value;
}

#define WIDTH(type, member) sizeof(((type *)0)->member)
#define FIELD(elf, bytes, type, member)                                                       \
    (is_wide(elf)                                                                             \
         ? number(elf, (bytes) + offsetof(Elf64_##type, member), WIDTH(Elf64_##type, member)) \
         : number(elf, (bytes) + offsetof(Elf32_##type, member), WIDTH(Elf32_##type, member)))
#define SIZE(elf, type) (is_wide(elf) ? sizeof(Elf64_##type) : sizeof(Elf32_##type))

/* ---- opening -------------------------------------------------------------------------------- */

static int read_header(struct hf_elf *elf)
{
    unsigned char bytes[sizeof(Elf64_Ehdr)];
    Elf64_Ehdr *header = &elf->header;
    if (elf->size < EI_NIDENT)
        return hf_elf_fail(elf, -ENOEXEC, "the file ends within the ELF header");
    int result = hf_elf_read(elf, 0, header->e_ident, EI_NIDENT);
    if (result != 0)
        return result;
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
        return hf_elf_fail(elf, -ENOEXEC, "not an ELF file");
    const unsigned char class = header->e_ident[EI_CLASS], order = header->e_ident[EI_DATA];
    if ((class != ELFCLASS32 && class != ELFCLASS64) ||
        (order != ELFDATA2LSB && order != ELFDATA2MSB) || header->e_ident[EI_VERSION] != EV_CURRENT)
        return hf_elf_fail(elf, -ENOEXEC, "the ELF header is damaged");
    if (elf->size < SIZE(elf, Ehdr))
        return hf_elf_fail(elf, -ENOEXEC, "the file ends within the ELF header");
    result = hf_elf_read(elf, 0, bytes, SIZE(elf, Ehdr));
    if (result != 0)
        return result;
    header->e_type = (Elf64_Half)FIELD(elf, bytes, Ehdr, e_type);
    header->e_machine = (Elf64_Half)FIELD(elf, bytes, Ehdr, e_machine);
    header->e_version = (Elf64_Word)FIELD(elf, bytes, Ehdr, e_version);
    header->e_shoff = FIELD(elf, bytes, Ehdr, e_shoff);
    header->e_shentsize = (Elf64_Half)FIELD(elf, bytes, Ehdr, e_shentsize);
    header->e_shnum = (Elf64_Half)FIELD(elf, bytes, Ehdr, e_shnum);
    if (header->e_version != EV_CURRENT)
        return hf_elf_fail(elf, -ENOEXEC, "the ELF header is damaged");
    return 0;
}

int hf_elf_open_object(struct hf_elf *elf, int descriptor, uint64_t offset, uint64_t size)
{
    int result = hf_elf_open_stretch(elf, descriptor, offset, size);
    if (result == 0)
        result = read_header(elf);
    if (result != 0)
        hf_elf_close(elf);
    return result;
}

/* ---- sections ------------------------------------------------------------------------------- */

struct section {
    uint32_t type, link;
    uint64_t offset, size, entry_size;
};

static struct section section_at(const struct hf_elf *elf, const unsigned char *bytes)
{
    return (struct section){
        .type = (uint32_t)FIELD(elf, bytes, Shdr, sh_type),
        .link = (uint32_t)FIELD(elf, bytes, Shdr, sh_link),
        .offset = FIELD(elf, bytes, Shdr, sh_offset),
        .size = FIELD(elf, bytes, Shdr, sh_size),
        .entry_size = FIELD(elf, bytes, Shdr, sh_entsize),
    };
}

/* The caller has checked that the index is below the count, which fits into the file. */
static int read_section(struct hf_elf *elf, uint64_t index, struct section *out)
{
    unsigned char bytes[sizeof(Elf64_Shdr)];
    const size_t size = SIZE(elf, Shdr);
    const int result = hf_elf_read(elf, elf->header.e_shoff + index * size, bytes, size);
    if (result == 0)
        *out = section_at(elf, bytes);
    return result;
}

static int count_sections(struct hf_elf *elf, uint64_t *count)
{
    static const char outside[] = "the section headers lie outside the file";
    const Elf64_Ehdr *header = &elf->header;
    const size_t size = SIZE(elf, Shdr);
    *count = 0;
    if (header->e_shoff == 0)
        return 0;
    if (header->e_shentsize != size)
        return hf_elf_fail(elf, -ENOEXEC, "the section headers have a wrong size");
    if (header->e_shoff > elf->size || size > elf->size - header->e_shoff)
        return hf_elf_fail(elf, -ENOEXEC, outside);
    *count = header->e_shnum;
    if (*count == 0) { /* too large for the field: the first section's size holds it */
        struct section first;
        const int result = read_section(elf, 0, &first);
        if (result != 0)
            return result;
        *count = first.size;
    }
    if (*count == 0 || *count > (elf->size - header->e_shoff) / size)
        return hf_elf_fail(elf, -ENOEXEC, outside);
    return 0;
}

/* Finds the only section of that type: 0, -ENOENT, or another negative errno. */
static int find_section(struct hf_elf *elf, uint64_t count, uint32_t type, struct section *out)
{
    unsigned char block[BLOCK];
    const size_t size = SIZE(elf, Shdr);
    int found = -ENOENT;
    for (uint64_t done = 0; done < count;) {
        const uint64_t left = count - done;
        const size_t here = left < sizeof block / size ? (size_t)left : sizeof block / size;
        const int result = hf_elf_read(elf, elf->header.e_shoff + done * size, block, here * size);
        if (result != 0)
            return result;
        for (size_t i = 0; i < here; i++) {
            const struct section section = section_at(elf, block + i * size);
            if (section.type != type)
                continue;
            if (found == 0)
                return hf_elf_fail(elf, -ENOEXEC, "there are two symbol tables");
            *out = section;
            found = 0;
        }
        done += here;
    }
    return found;
}

/* ---- symbols -------------------------------------------------------------------------------- */

/* Loads the symbols and the strings that name them into their parts. */
static int load_symbols(struct hf_elf *elf, uint32_t type)
{
    struct section table, strings;
    uint64_t count;
    int result = count_sections(elf, &count);
    if (result == 0)
        result = find_section(elf, count, type, &table);
    if (result != 0)
        return result;
    if (table.entry_size != SIZE(elf, Sym))
        return hf_elf_fail(elf, -ENOEXEC, "the symbols have a wrong size");
    if (table.link == SHN_UNDEF || table.link >= count)
        return hf_elf_fail(elf, -ENOEXEC, "the symbols have no names");
    result = read_section(elf, table.link, &strings);
    if (result != 0)
        return result;
    if (strings.type != SHT_STRTAB)
        return hf_elf_fail(elf, -ENOEXEC, "the symbols have no names");
    result = hf_elf_load(elf, HF_ELF_PART_STRTAB, strings.offset, strings.size);
    return result != 0 ? result : hf_elf_load(elf, HF_ELF_PART_SYMTAB, table.offset, table.size);
}

int hf_elf_object_symbols(struct hf_elf *elf, uint32_t type, hf_elf_symbol_visitor *visit,
                          void *context)
{
    int result = load_symbols(elf, type);
    if (result != 0)
        return result;
    const struct hf_elf_part *symbols = &elf->parts[HF_ELF_PART_SYMTAB],
                             *strings = &elf->parts[HF_ELF_PART_STRTAB];
    const size_t size = SIZE(elf, Sym), count = symbols->size / size;
    for (size_t i = 1; i < count; i++) {
        const unsigned char *bytes = symbols->data + i * size;
        const uint64_t name = FIELD(elf, bytes, Sym, st_name);
        if (name >= strings->size)
            return hf_elf_fail(elf, -ENOEXEC, "a symbol's name lies outside the names");
        /* Both classes encode st_info and st_other in the same way. */
        const unsigned char info = (unsigned char)FIELD(elf, bytes, Sym, st_info);
        const uint16_t section = (uint16_t)FIELD(elf, bytes, Sym, st_shndx);
        const struct hf_elf_symbol symbol = {
            .name = (const char *)strings->data + name,
            .value = FIELD(elf, bytes, Sym, st_value),
            .size = FIELD(elf, bytes, Sym, st_size),
            .index = (uint32_t)i,
            .section = section,
            .type = ELF64_ST_TYPE(info),
            .binding = ELF64_ST_BIND(info),
            .visibility = ELF64_ST_VISIBILITY((unsigned char)FIELD(elf, bytes, Sym, st_other)),
            .defined = section != SHN_UNDEF,
        };
        if (!visit(&symbol, context))
            break;
    }
    return 0;
}
