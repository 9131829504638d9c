/*
 * The reader sees in real files what libelf sees: every symbol of both tables with its version,
 * every needed library, section and segment.
 *
 * Usage: test-peer FILE...
 */
#include "suite.h"
#include "walk.h"

#include <fcntl.h>
#include <gelf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char **files;
static int files_count;

struct peer {
    Elf *elf;
    Elf_Data *symbols, *versym, *verneed, *verdef;
    size_t names; /* the string section */
    size_t next;  /* index of the symbol that must come */
    bool dynamic;
};

static Elf_Data *data_of(Elf *elf, GElf_Word type, GElf_Shdr *header)
{
    Elf_Scn *section = NULL;
    while ((section = elf_nextscn(elf, section)) != NULL)
        if (gelf_getshdr(section, header) != NULL && header->sh_type == type)
            return elf_getdata(section, NULL);
    return NULL;
}

/* The version's name for an index, and the library that it is wanted from. */
static const char *peer_version(const struct peer *peer, GElf_Half index, const char **library)
{
    GElf_Verneed need;
    GElf_Vernaux wanted;
    GElf_Verdef definition;
    GElf_Verdaux name;
    *library = NULL;
    for (int at = 0; peer->verneed != NULL && gelf_getverneed(peer->verneed, at, &need) != NULL;
         at += (int)need.vn_next) {
        int inner = at + (int)need.vn_aux;
        for (unsigned i = 0; i < need.vn_cnt; i++) {
            ck_assert_ptr_nonnull(gelf_getvernaux(peer->verneed, inner, &wanted));
            if (wanted.vna_other == index) {
                *library = elf_strptr(peer->elf, peer->names, need.vn_file);
                return elf_strptr(peer->elf, peer->names, wanted.vna_name);
            }
            inner += (int)wanted.vna_next;
        }
        if (need.vn_next == 0)
            break;
    }
    for (int at = 0; peer->verdef != NULL && gelf_getverdef(peer->verdef, at, &definition) != NULL;
         at += (int)definition.vd_next) {
        if (definition.vd_ndx == index && (definition.vd_flags & VER_FLG_BASE) == 0) {
            gelf_getverdaux(peer->verdef, at + (int)definition.vd_aux, &name);
            return elf_strptr(peer->elf, peer->names, name.vda_name);
        }
        if (definition.vd_next == 0)
            break;
    }
    return NULL;
}

static bool compare(const struct hf_elf_symbol *symbol, void *context)
{
    struct peer *peer = context;
    GElf_Sym other;
    ck_assert_uint_eq(symbol->index, peer->next);
    ck_assert_ptr_nonnull(gelf_getsym(peer->symbols, (int)peer->next, &other));
    ck_assert_str_eq(symbol->name, elf_strptr(peer->elf, peer->names, other.st_name));
    ck_assert_uint_eq(symbol->value, other.st_value);
    ck_assert_uint_eq(symbol->size, other.st_size);
    ck_assert_uint_eq(symbol->type, GELF_ST_TYPE(other.st_info));
    ck_assert_uint_eq(symbol->binding, GELF_ST_BIND(other.st_info));
    ck_assert_uint_eq(symbol->visibility, GELF_ST_VISIBILITY(other.st_other));
    ck_assert_int_eq(symbol->defined, other.st_shndx != SHN_UNDEF);
    if (peer->dynamic && peer->versym != NULL) {
        GElf_Versym index;
        const char *library, *version;
        gelf_getversym(peer->versym, (int)peer->next, &index);
        version = peer_version(peer, index & 0x7fff, &library);
        ck_assert_pstr_eq(symbol->version, version);
        ck_assert_pstr_eq(symbol->library, symbol->defined ? NULL : library);
    }
    peer->next++;
    return true;
}

static void compare_table(struct hf_elf *elf, Elf *other, bool dynamic)
{
    GElf_Shdr header, unused;
    struct peer peer = {.elf = other, .next = 1, .dynamic = dynamic};
    peer.symbols = data_of(other, dynamic ? SHT_DYNSYM : SHT_SYMTAB, &header);
    const enum hf_elf_table table = dynamic ? HF_ELF_DYNSYM : HF_ELF_SYMTAB;
    if (peer.symbols == NULL) {
        ck_assert_uint_eq(hf_elf_symbol_count(elf, table), 0);
        return;
    }
    peer.names = header.sh_link;
    peer.versym = data_of(other, SHT_GNU_versym, &unused);
    peer.verneed = data_of(other, SHT_GNU_verneed, &unused);
    peer.verdef = data_of(other, SHT_GNU_verdef, &unused);
    ck_assert_int_eq(hf_elf_symbols(elf, table, compare, &peer), 0);
    ck_assert_uint_eq(peer.next, header.sh_size / header.sh_entsize);
}

static void compare_dynamic(struct hf_elf *elf, Elf *other)
{
    GElf_Shdr header;
    Elf_Data *dynamic = data_of(other, SHT_DYNAMIC, &header);
    ck_assert_ptr_nonnull(dynamic);
    size_t cursor = 0;
    GElf_Dyn entry;
    for (int i = 0; gelf_getdyn(dynamic, i, &entry) != NULL && entry.d_tag != DT_NULL; i++) {
        if (entry.d_tag == DT_NEEDED)
            ck_assert_pstr_eq(hf_elf_needed(elf, &cursor),
                              elf_strptr(other, header.sh_link, entry.d_un.d_val));
        if (entry.d_tag == DT_SONAME)
            ck_assert_pstr_eq(hf_elf_tag_string(elf, DT_SONAME),
                              elf_strptr(other, header.sh_link, entry.d_un.d_val));
    }
    ck_assert_ptr_null(hf_elf_needed(elf, &cursor));
}

static void compare_sections(struct hf_elf *elf, Elf *other)
{
    size_t names, cursor = 1; /* libelf leaves the first out */
    Elf64_Shdr ours;
    GElf_Shdr theirs;
    const char *name;
    ck_assert_int_eq(elf_getshdrstrndx(other, &names), 0);
    for (Elf_Scn *section = NULL; (section = elf_nextscn(other, section)) != NULL;) {
        gelf_getshdr(section, &theirs);
        ck_assert(hf_elf_section(elf, &cursor, &ours, &name));
        ck_assert_str_eq(name, elf_strptr(other, names, theirs.sh_name));
        ck_assert_mem_eq(&ours, &theirs, sizeof ours);
    }
    ck_assert(!hf_elf_section(elf, &cursor, &ours, &name));
}

static void with_file(const char *path, void (*test)(struct hf_elf *, Elf *))
{
    struct hf_elf elf;
    ck_assert_int_eq(hf_elf_open(&elf, path), 0);
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    Elf *other = elf_begin(descriptor, ELF_C_READ, NULL);
    ck_assert_ptr_nonnull(other);
    test(&elf, other);
    elf_end(other);
    close(descriptor);
    hf_elf_close(&elf);
}

static void compare_all(struct hf_elf *elf, Elf *other)
{
    compare_sections(elf, other);
    compare_dynamic(elf, other);
    compare_table(elf, other, true);
    compare_table(elf, other, false);
}

START_TEST(same_as_libelf)
{
    with_file(files[_i], compare_all);
}
END_TEST

/* What the loader needs is enough: the section headers are only a help. */
static bool count_symbol(const struct hf_elf_symbol *symbol, void *context)
{
    size_t *named = context;
    *named += symbol->name[0] != '\0';
    return true;
}

START_TEST(without_section_headers)
{
    struct image image = image_read(files[_i]);
    struct hf_elf elf;
    size_t with = 0, without = 0;
    ck_assert_int_eq(hf_elf_open_memory(&elf, image.data, image.size), 0);
    ck_assert_int_eq(hf_elf_symbols(&elf, HF_ELF_DYNSYM, count_symbol, &with), 0);
    hf_elf_close(&elf);
    Elf64_Ehdr *header = (Elf64_Ehdr *)(void *)image.data;
    header->e_shoff = 0;
    header->e_shnum = header->e_shstrndx = 0;
    ck_assert_int_eq(hf_elf_open_memory(&elf, image.data, image.size), 0);
    ck_assert_int_eq(hf_elf_symbols(&elf, HF_ELF_DYNSYM, count_symbol, &without), 0);
    ck_assert_uint_eq(with, without);
    ck_assert_int_eq(inspect_image(&image, files[_i]), 0);
    hf_elf_close(&elf);
    image_free(&image);
}
END_TEST

int main(int count, char **arguments)
{
    files = arguments + 1;
    files_count = count - 1;
    if (elf_version(EV_CURRENT) == EV_NONE)
        return EXIT_FAILURE;
    TCase *tcase = tcase_create("peer");
    tcase_set_timeout(tcase, SUITE_SECONDS);
    tcase_add_loop_test(tcase, same_as_libelf, 0, files_count);
    tcase_add_loop_test(tcase, without_section_headers, 0, files_count);
    return RUN_CASES("peer", tcase);
}
