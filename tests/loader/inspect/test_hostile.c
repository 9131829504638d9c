/*
 * The reader answers or refuses, in bounded time, however hostile a file is: a small module is cut
 * at every byte, has every byte changed, and gets harmful counts and offsets.
 *
 * Usage: test-hostile SAMPLE
 */
#include "walk.h"

#include "suite.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *path;
static struct image sample;

static void setup(void)
{
    sample = image_read(path);
}

static void teardown(void)
{
    image_free(&sample);
}

START_TEST(as_it_is)
{
    ck_assert_int_eq(walk(&sample), 0);
    ck_assert_int_eq(inspect_image(&sample, path), 0);
}
END_TEST

START_TEST(cut_at_every_byte)
{
    for (size_t size = 0; size < sample.size; size++) {
        struct image cut = image_copy(&sample, size);
        const int result = walk(&cut);
        ck_assert_msg(result == 0 || result == -ENOEXEC, "%zu bytes: %d", size, result);
        inspect_image(&cut, path);
        image_free(&cut);
    }
}
END_TEST

static void change(size_t from, size_t to)
{
    static const unsigned char masks[] = {0xff, 0x01, 0x80, 0x40};
    for (size_t at = from; at < to && at < sample.size; at++) {
        const unsigned char right = sample.data[at];
        for (size_t m = 0; m < sizeof masks; m++) {
            sample.data[at] = right ^ masks[m];
            walk(&sample);
            if (m == 0) /* also searches the system's directories for libraries */
                inspect_image(&sample, path);
        }
        sample.data[at] = 0;
        walk(&sample);
        sample.data[at] = right;
    }
    ck_assert_int_eq(walk(&sample), 0);
}

START_TEST(every_byte_changed)
{
    /* Another part of the file each time. */
    const size_t part = sample.size / 8 + 1;
    change((size_t)_i * part, (size_t)(_i + 1) * part);
}
END_TEST

/* ---- hostile numbers ------------------------------------------------------------------------ */

static Elf64_Ehdr *header(void)
{
    return (Elf64_Ehdr *)(void *)sample.data;
}

static Elf64_Phdr *segment_of(uint32_t type)
{
    Elf64_Phdr *segments = (Elf64_Phdr *)(void *)(sample.data + header()->e_phoff);
    for (size_t i = 0; i < header()->e_phnum; i++)
        if (segments[i].p_type == type)
            return &segments[i];
    ck_abort_msg("no such segment");
    return NULL;
}

static Elf64_Dyn *tag_of(int64_t tag)
{
    Elf64_Dyn *entry = (Elf64_Dyn *)(void *)(sample.data + segment_of(PT_DYNAMIC)->p_offset);
    while (entry->d_tag != tag) {
        ck_assert_int_ne(entry->d_tag, DT_NULL);
        entry++;
    }
    return entry;
}

/* The file's bytes at an address. In the sample, the addresses of the first segments are their
 * offsets. */
static void *at_address(uint64_t address)
{
    ck_assert_uint_lt(address, sample.size);
    return sample.data + address;
}

static const uint64_t numbers[] = {0,
                                   1,
                                   7,
                                   0x7f,
                                   0xfff,
                                   0xffff,
                                   0x7fffffff,
                                   0xffffffff,
                                   UINT64_C(0x7fffffffffffffff),
                                   UINT64_C(0x8000000000000000),
                                   UINT64_C(0xfffffffffffffff0),
                                   UINT64_MAX};
enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

/* Writes each number into a field of `size` bytes. */
static void try_numbers(void *field, size_t size)
{
    uint64_t right = 0;
    memcpy(&right, field, size);
    for (size_t i = 0; i < NUMBERS; i++) {
        memcpy(field, &numbers[i], size);
        walk(&sample);
        inspect_image(&sample, path);
    }
    memcpy(field, &right, size);
    ck_assert_int_eq(walk(&sample), 0);
}

START_TEST(header_numbers)
{
    try_numbers(&header()->e_phoff, 8);
    try_numbers(&header()->e_shoff, 8);
    try_numbers(&header()->e_phnum, 2);
    try_numbers(&header()->e_shnum, 2);
    try_numbers(&header()->e_phentsize, 2);
    try_numbers(&header()->e_shentsize, 2);
    try_numbers(&header()->e_shstrndx, 2);
    try_numbers(&header()->e_type, 2);
    try_numbers(&header()->e_ehsize, 2);
}
END_TEST

START_TEST(segment_numbers)
{
    static const uint32_t types[] = {PT_LOAD, PT_DYNAMIC, PT_TLS, PT_NOTE, PT_GNU_STACK};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        try_numbers(&segment_of(types[i])->p_offset, 8);
        try_numbers(&segment_of(types[i])->p_vaddr, 8);
        try_numbers(&segment_of(types[i])->p_filesz, 8);
        try_numbers(&segment_of(types[i])->p_memsz, 8);
        try_numbers(&segment_of(types[i])->p_align, 8);
    }
}
END_TEST

START_TEST(dynamic_numbers)
{
    static const int64_t tags[] = {DT_STRTAB, DT_STRSZ,    DT_SYMTAB,     DT_SYMENT,
                                   DT_HASH,   DT_GNU_HASH, DT_VERSYM,     DT_VERNEED,
                                   DT_VERDEF, DT_SONAME,   DT_VERNEEDNUM, DT_NEEDED};
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        try_numbers(&tag_of(tags[i])->d_un.d_val, 8);
        try_numbers(&tag_of(tags[i])->d_tag, 8);
    }
    try_numbers(&tag_of(DT_RELA)->d_un.d_val, 8);
    try_numbers(&tag_of(DT_RELASZ)->d_un.d_val, 8);
}
END_TEST

START_TEST(table_numbers)
{
    uint32_t *hash = at_address(tag_of(DT_HASH)->d_un.d_ptr);
    try_numbers(&hash[0], 4);
    try_numbers(&hash[1], 4);
    uint32_t *gnu = at_address(tag_of(DT_GNU_HASH)->d_un.d_ptr);
    /* The reader must not fall back on the other hash table. */
    const int64_t tag = DT_HASH;
    Elf64_Dyn *entry = tag_of(DT_HASH);
    entry->d_tag = DT_DEBUG;
    for (size_t i = 0; i < 8; i++)
        try_numbers(&gnu[i], 4);
    entry->d_tag = tag;

    Elf64_Sym *symbols = at_address(tag_of(DT_SYMTAB)->d_un.d_ptr);
    for (size_t i = 0; i < 4; i++) {
        try_numbers(&symbols[i].st_name, 4);
        try_numbers(&symbols[i].st_shndx, 2);
    }
    unsigned char *versions = at_address(tag_of(DT_VERNEED)->d_un.d_ptr);
    for (size_t i = 0; i + 4 <= sizeof(Elf64_Verneed) + sizeof(Elf64_Vernaux); i += 2)
        try_numbers(versions + i, i % 4 == 0 ? 4 : 2);
    versions = at_address(tag_of(DT_VERDEF)->d_un.d_ptr);
    for (size_t i = 0; i + 4 <= sizeof(Elf64_Verdef) + sizeof(Elf64_Verdaux); i += 2)
        try_numbers(versions + i, i % 4 == 0 ? 4 : 2);
    uint16_t *versym = at_address(tag_of(DT_VERSYM)->d_un.d_ptr);
    try_numbers(&versym[1], 2);
}
END_TEST

/* ---- hostile structures ---------------------------------------------------------------------- */

/* Version entries that overlap, and chains that leave the table. */
START_TEST(versions_overlapping)
{
    Elf64_Verneed *need = at_address(tag_of(DT_VERNEED)->d_un.d_ptr);
    Elf64_Vernaux *version = (Elf64_Vernaux *)(void *)((char *)need + need->vn_aux);
    need->vn_cnt = 0xffff;
    version->vna_next = 1;
    walk(&sample);
    need->vn_aux = 0;
    walk(&sample);
    need->vn_next = 1;
    walk(&sample);
    need->vn_next = 0xfffffff0;
    walk(&sample);
    ck_assert_int_eq(inspect_image(&sample, path), -ENOEXEC);
}
END_TEST

/* Processor time of this thread: quadratic work takes twenty seconds, linear work half a second,
 * also with a sanitizer. */
static void assert_quick(void)
{
    ck_assert_uint_lt((uint64_t)clock() / CLOCKS_PER_SEC, 6);
}

/* Thousands of sections, each covering the whole of a large file. */
START_TEST(overlapping_sections)
{
    enum { SIZE = 32 * 1024 * 1024, SECTIONS = 4000 };
    struct image large = {calloc(1, SIZE), SIZE};
    ck_assert_ptr_nonnull(large.data);
    memcpy(large.data, sample.data, sample.size);
    Elf64_Ehdr *large_header = (Elf64_Ehdr *)(void *)large.data;
    large_header->e_shoff = (sample.size + 63) / 64 * 64;
    large_header->e_shnum = 0; /* the count is in the first section */
    large_header->e_shstrndx = 1;
    Elf64_Shdr *sections = (Elf64_Shdr *)(void *)(large.data + large_header->e_shoff);
    sections[0].sh_size = SECTIONS;
    for (size_t i = 1; i < SECTIONS; i++)
        sections[i] = (Elf64_Shdr){
            .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC, .sh_size = SIZE, .sh_offset = 0};
    sections[1].sh_type = SHT_STRTAB;
    ck_assert_int_eq(walk(&large), 0);
    ck_assert_int_eq(inspect_image(&large, path), 0);
    sections[0].sh_size = UINT64_MAX / 64;
    walk(&large);
    inspect_image(&large, path);
    assert_quick();
    image_free(&large);
}
END_TEST

/* A million symbols with the same name of many megabytes. */
START_TEST(long_names)
{
    enum { SIZE = 48 * 1024 * 1024, SYMBOLS = 1000000 };
    struct image large = {malloc(SIZE), SIZE};
    ck_assert_ptr_nonnull(large.data);
    memset(large.data, 'a', SIZE);
    memcpy(large.data, sample.data, sample.size);
    struct image small = sample;
    sample = large;
    uint64_t at = (small.size + 63) / 64 * 64;
    /* One segment covers the whole file. */
    Elf64_Phdr *load = segment_of(PT_LOAD);
    load->p_offset = load->p_vaddr = 0;
    load->p_filesz = load->p_memsz = SIZE;
    Elf64_Phdr *dynamic = segment_of(PT_DYNAMIC);
    dynamic->p_vaddr = dynamic->p_offset;
    uint32_t *hash = (uint32_t *)(void *)(sample.data + at);
    hash[0] = 1;
    hash[1] = SYMBOLS;
    tag_of(DT_HASH)->d_un.d_ptr = at;
    at += 64;
    tag_of(DT_SYMTAB)->d_un.d_ptr = at;
    Elf64_Sym *symbols = (Elf64_Sym *)(void *)(sample.data + at);
    memset(symbols, 0, SYMBOLS * sizeof *symbols);
    for (size_t i = 1; i < SYMBOLS; i++) {
        symbols[i].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
        symbols[i].st_shndx = i % 2 == 0 ? 1 : SHN_UNDEF;
        symbols[i].st_name = (Elf64_Word)i;
    }
    at += SYMBOLS * sizeof *symbols;
    tag_of(DT_STRTAB)->d_un.d_ptr = at;
    tag_of(DT_STRSZ)->d_un.d_val = SIZE - at;
    tag_of(DT_VERSYM)->d_tag = DT_DEBUG;
    tag_of(DT_VERNEED)->d_tag = DT_DEBUG;
    tag_of(DT_VERDEF)->d_tag = DT_DEBUG;
    struct hf_elf elf;
    struct hf_inspection inspection;
    ck_assert_int_eq(hf_elf_open_memory(&elf, sample.data, sample.size), 0);
    ck_assert_uint_eq(hf_elf_symbol_count(&elf, HF_ELF_DYNSYM), SYMBOLS);
    ck_assert_int_eq(hf_inspect_elf(&elf, path, &inspection), 0);
    ck_assert_uint_ge(inspection.exports, SYMBOLS / 2 - 1);
    assert_quick();
    hf_inspection_free(&inspection);
    hf_elf_close(&elf);
    image_free(&sample);
    sample = small;
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&path);
    TCase *tcase = NEW_CASE("hostile files", as_it_is, cut_at_every_byte, header_numbers,
                            segment_numbers, dynamic_numbers, table_numbers, versions_overlapping,
                            overlapping_sections, long_names);
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, every_byte_changed, 0, 8);
    return RUN_CASES("hostile files", tcase);
}
