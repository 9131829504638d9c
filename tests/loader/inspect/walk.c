#include "walk.h"

#include "loader/elf/elf_names.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads a string as far as the reader's users do. */
static size_t touch(const char *text)
{
    return text == NULL ? 0 : strnlen(text, 4096);
}

struct visited {
    size_t count, stop;
};

static bool visit_symbol(const struct hf_elf_symbol *symbol, void *context)
{
    struct visited *visited = context;
    ck_assert_ptr_nonnull(symbol->name);
    touch(symbol->name);
    touch(symbol->version);
    touch(symbol->library);
    ck_assert(symbol->library == NULL || !symbol->defined);
    visited->count++;
    return visited->count != visited->stop;
}

static bool visit_version(const char *library, const char *version, bool needed, void *context)
{
    size_t *count = context;
    ck_assert_ptr_nonnull(version);
    ck_assert(!needed || library != NULL);
    touch(library);
    touch(version);
    ++*count;
    return true;
}

static void walk_table(struct hf_elf *elf, enum hf_elf_table table)
{
    struct visited all = {0, 0}, one = {0, 1};
    const size_t count = hf_elf_symbol_count(elf, table);
    ck_assert_uint_le(count, elf->size / sizeof(Elf64_Sym));
    const int result = hf_elf_symbols(elf, table, visit_symbol, &all);
    ck_assert_int_le(result, 0);
    ck_assert_uint_eq(all.count, result == 0 && count > 0 ? count - 1 : 0);
    if (result == 0 && all.count > 0) {
        ck_assert_int_eq(hf_elf_symbols(elf, table, visit_symbol, &one), 0);
        ck_assert_uint_eq(one.count, 1);
    }
}

struct search {
    const char *name;
    struct hf_elf_symbol *out;
    bool found;
};

static bool is_it(const struct hf_elf_symbol *symbol, void *context)
{
    struct search *search = context;
    if (!symbol->defined || strcmp(symbol->name, search->name) != 0)
        return true;
    *search->out = *symbol;
    search->found = true;
    return false;
}

int find_symbol(struct hf_elf *elf, const char *name, struct hf_elf_symbol *out)
{
    struct search search = {name, out, false};
    const int dynamic = hf_elf_symbols(elf, HF_ELF_DYNSYM, is_it, &search);
    if (search.found)
        return 0;
    const int all = hf_elf_symbols(elf, HF_ELF_SYMTAB, is_it, &search);
    if (search.found)
        return 0;
    if (dynamic != 0 && dynamic != -ENOENT)
        return dynamic;
    return all != 0 && all != -ENOENT ? all : -ENOENT;
}

static void walk_opened(struct hf_elf *elf)
{
    Elf64_Phdr segment;
    Elf64_Shdr section;
    const char *name;
    size_t count = 0;
    for (size_t cursor = 0; hf_elf_segment(elf, &cursor, &segment); count++) {
        uint64_t offset, available;
        if (hf_elf_locate(elf, segment.p_vaddr, &offset, &available) == 0)
            ck_assert(offset <= elf->size && available <= elf->size - offset);
    }
    ck_assert_uint_le(count, elf->size / sizeof segment);
    count = 0;
    for (size_t cursor = 0; hf_elf_section(elf, &cursor, &section, &name); count++)
        touch(name);
    ck_assert_uint_le(count, elf->size / sizeof section);

    unsigned char id[64];
    ck_assert_uint_le(hf_elf_build_id(elf, id, sizeof id), sizeof id);
    struct hf_elf_tls tls;
    hf_elf_tls(elf, &tls);
    touch(hf_elf_tag_string(elf, DT_SONAME));
    touch(hf_elf_tag_string(elf, DT_RUNPATH));
    for (size_t cursor = 0; (name = hf_elf_needed(elf, &cursor)) != NULL;)
        touch(name);
    walk_table(elf, HF_ELF_DYNSYM);
    walk_table(elf, HF_ELF_SYMTAB);
    count = 0;
    ck_assert_int_le(hf_elf_versions(elf, visit_version, &count), 0);
    struct hf_elf_symbol symbol;
    ck_assert_int_le(find_symbol(elf, "PyInit_sample", &symbol), 0);
}

int walk(const struct image *image)
{
    struct hf_elf elf;
    const int result = hf_elf_open_memory(&elf, image->data, image->size);
    if (result == 0)
        walk_opened(&elf);
    else
        ck_assert_ptr_nonnull(elf.why);
    hf_elf_close(&elf);
    return result;
}

int inspect_image(const struct image *image, const char *path)
{
    struct hf_elf elf;
    struct hf_inspection inspection;
    int result = hf_elf_open_memory(&elf, image->data, image->size);
    if (result != 0)
        return result;
    result = hf_inspect_elf(&elf, path, &inspection);
    hf_elf_close(&elf);
    if (result != 0) {
        ck_assert_int_lt(result, 0);
        ck_assert_ptr_nonnull(inspection.why);
    } else {
        ck_assert_ptr_nonnull(inspection.path);
        for (size_t i = 0; i < inspection.findings_count; i++)
            ck_assert_uint_gt(touch(inspection.findings[i].message), 0);
    }
    hf_inspection_free(&inspection);
    return result;
}
