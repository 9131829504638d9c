/*
 * What the dynamic linker needs is enough to read symbols: the section headers may be missing.
 *
 * Usage: test-headless FILE...
 */
#include "walk.h"

#include "suite.h"

static char **files;

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
    TCase *tcase = tcase_create("headless");
    tcase_set_timeout(tcase, 100);
    tcase_add_loop_test(tcase, without_section_headers, 0, count - 1);
    return RUN_CASES("headless", tcase);
}
