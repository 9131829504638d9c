/*
 * fixture.c - see fixture.h. Ends the test program through Check where a fixture does not fit.
 */
#include "fixture.h"

#include <check.h>
#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NULL_SECTION, TEXT, SYMBOLS, STRINGS, SECTION_NAMES, SECTION_COUNT };

static size_t append(struct fixture *out, const void *bytes, size_t size)
{
    const size_t at = out->size;
    ck_assert_uint_le(at + size, sizeof out->bytes);
    memcpy(out->bytes + at, bytes, size);
    out->size += size;
    return at;
}

static void align(struct fixture *out)
{
    while (out->size % 8 != 0)
        append(out, "", 1);
}

void fixture_object(struct fixture *out, uint16_t type, const struct fixture_symbol *symbols,
                    size_t count)
{
    static const char names[] = "\0.text\0.symbols\0.strings\0.names";
    Elf64_Ehdr header = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = type,
        .e_machine = EM_X86_64,
        .e_version = EV_CURRENT,
        .e_ehsize = sizeof(Elf64_Ehdr),
        .e_shentsize = sizeof(Elf64_Shdr),
        .e_shnum = SECTION_COUNT,
        .e_shstrndx = SECTION_NAMES,
    };
    Elf64_Shdr sections[SECTION_COUNT] = {0};

    memset(out, 0, sizeof *out);
    append(out, &header, sizeof header);

    sections[TEXT] = (Elf64_Shdr){
        .sh_name = 1,
        .sh_type = SHT_PROGBITS,
        .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
        .sh_offset = append(out, "\xc3", 1),
        .sh_size = 1,
    };

    align(out);
    const Elf64_Sym null_symbol = {0};
    const size_t table = append(out, &null_symbol, sizeof null_symbol);
    Elf64_Word name_at = 1;
    for (size_t i = 0; i < count; i++) {
        const Elf64_Sym symbol = {
            .st_name = name_at,
            .st_info = symbols[i].info,
            .st_other = symbols[i].visibility,
            .st_shndx = symbols[i].section,
        };
        append(out, &symbol, sizeof symbol);
        name_at += (Elf64_Word)strlen(symbols[i].name) + 1;
    }
    sections[SYMBOLS] = (Elf64_Shdr){
        .sh_name = 7,
        .sh_type = type == ET_REL ? SHT_SYMTAB : SHT_DYNSYM,
        .sh_offset = table,
        .sh_size = (count + 1) * sizeof(Elf64_Sym),
        .sh_link = STRINGS,
        .sh_info = 1,
        .sh_addralign = 8,
        .sh_entsize = sizeof(Elf64_Sym),
    };

    sections[STRINGS] = (Elf64_Shdr){
        .sh_name = 16,
        .sh_type = SHT_STRTAB,
        .sh_offset = append(out, "", 1),
        .sh_size = name_at,
    };
    for (size_t i = 0; i < count; i++)
        append(out, symbols[i].name, strlen(symbols[i].name) + 1);

    sections[SECTION_NAMES] = (Elf64_Shdr){
        .sh_name = 25,
        .sh_type = SHT_STRTAB,
        .sh_offset = append(out, names, sizeof names),
        .sh_size = sizeof names,
    };

    align(out);
    header.e_shoff = append(out, sections, sizeof sections);
    memcpy(out->bytes, &header, sizeof header);
}

size_t fixture_symbols_header(const struct fixture *object)
{
    Elf64_Ehdr header;
    memcpy(&header, object->bytes, sizeof header);
    return header.e_shoff + SYMBOLS * sizeof(Elf64_Shdr);
}

void fixture_archive(struct fixture *out, const struct fixture *const *members, size_t count)
{
    memset(out, 0, sizeof *out);
    append(out, "!<arch>\n", 8);
    for (size_t i = 0; i < count; i++) {
        char header[64];
        char name[32];
        snprintf(name, sizeof name, "%zu.o/", i);
        const int length = snprintf(header, sizeof header, "%-16s%-12d%-6d%-6d%-8o%-10zu`\n", name,
                                    0, 0, 0, 0100644U, members[i]->size);
        ck_assert_int_eq(length, 60);
        append(out, header, (size_t)length);
        append(out, members[i]->bytes, members[i]->size);
        if (out->size % 2 != 0)
            append(out, "\n", 1);
    }
}

void fixture_write(const char *path, const void *bytes, size_t size)
{
    unlink(path); /* ext4 writes a truncated and rewritten file to the disk at once */
    FILE *file = fopen(path, "wbe");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
}
