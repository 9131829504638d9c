/*
 * The reader refuses what it cannot read with the right error and a reason, and never blocks:
 * FIFOs, devices, directories, missing and forbidden files, other machines and classes.
 *
 * Usage: test-open SAMPLE LARGE (a file with large tables)
 */
#include "walk.h"

#include "process.h"
#include "scratch.h"
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *path, *large_path;

static void expect(const char *name, int result, const char *why)
{
    struct hf_elf elf;
    struct hf_inspection inspection;
    ck_assert_int_eq(hf_elf_open(&elf, name), result);
    ck_assert_str_eq(elf.why, why);
    hf_elf_close(&elf);
    if (result != -ENOTSUP) {
        ck_assert_int_eq(hf_inspect(name, &inspection), result);
        ck_assert_str_eq(inspection.why, why);
        hf_inspection_free(&inspection);
    }
}

START_TEST(no_file)
{
    expect(scratch_file, -ENOENT, "the file cannot be opened");
    expect("", -ENOENT, "the file cannot be opened");
    expect(scratch_directory, -EISDIR, "a directory");
    expect("/dev/zero", -ENOEXEC, "not a regular file");
    expect("/proc/self/maps", -ENOEXEC, "the file is empty");
    ck_assert_int_eq(mkfifo(scratch_file, 0600), 0);
    expect(scratch_file, -ENOEXEC, "not a regular file");
}
END_TEST

START_TEST(forbidden)
{
    const int made = open(scratch_file, O_WRONLY | O_CREAT | O_CLOEXEC, 0);
    ck_assert_int_ge(made, 0);
    close(made);
    if (access(scratch_file, R_OK) == 0) /* root may read every file */
        expect(scratch_file, -ENOEXEC, "the file is empty");
    else
        expect(scratch_file, -EACCES, "the file cannot be opened");
}
END_TEST

static void write_file(const void *data, size_t size)
{
    FILE *out = fopen(scratch_file, "wb");
    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(fwrite(data, 1, size, out), size);
    fclose(out);
}

START_TEST(not_elf)
{
    write_file("\177EL", 3);
    expect(scratch_file, -ENOEXEC, "not an ELF file");
    write_file("#!/bin/sh\n", 10);
    expect(scratch_file, -ENOEXEC, "not an ELF file");
    write_file("\177ELF\2\1\1", 7);
    expect(scratch_file, -ENOEXEC, "the file ends within the ELF header");
    char zeros[64] = "\177ELF";
    write_file(zeros, sizeof zeros);
    expect(scratch_file, -ENOEXEC, "the ELF header is damaged");
}
END_TEST

START_TEST(other_machines)
{
    struct image image = image_read(path);
    Elf64_Ehdr *header = (Elf64_Ehdr *)(void *)image.data;
    header->e_machine = EM_RISCV;
    write_file(image.data, image.size);
    expect(scratch_file, -ENOTSUP, "an ELF file for another machine");
    header->e_ident[EI_DATA] = ELFDATA2MSB;
    write_file(image.data, image.size);
    expect(scratch_file, -ENOTSUP, "a big-endian ELF file");
    header->e_ident[EI_CLASS] = ELFCLASS32;
    write_file(image.data, image.size);
    expect(scratch_file, -ENOTSUP, "a 32-bit ELF file");

    struct hf_inspection inspection;
    ck_assert_int_eq(hf_inspect(scratch_file, &inspection), 0);
    ck_assert_uint_eq(inspection.findings_count, 1);
    ck_assert_int_eq(inspection.findings[0].rule, HF_RULE_MACHINE);
    ck_assert_int_eq(hf_inspection_severity(&inspection), HF_SEVERITY_ERROR);
    hf_inspection_free(&inspection);
    image_free(&image);
}
END_TEST

START_TEST(both_machines_are_read)
{
    struct image image = image_read(path);
    Elf64_Ehdr *header = (Elf64_Ehdr *)(void *)image.data;
    header->e_machine = header->e_machine == EM_X86_64 ? EM_AARCH64 : EM_X86_64;
    write_file(image.data, image.size);
    struct hf_inspection inspection;
    ck_assert_int_eq(hf_inspect(scratch_file, &inspection), 0);
    ck_assert_int_eq(inspection.findings[0].rule, HF_RULE_MACHINE);
    ck_assert_str_eq(inspection.machine, header->e_machine == EM_X86_64 ? "x86-64" : "aarch64");
    ck_assert_uint_ge(inspection.exports, 2);
    hf_inspection_free(&inspection);
    image_free(&image);
}
END_TEST

/* The caller's descriptor keeps its position, and works after the name is gone. */
START_TEST(by_descriptor)
{
    struct image image = image_read(path);
    write_file(image.data, image.size);
    const int descriptor = open(scratch_file, O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(lseek(descriptor, 9, SEEK_SET), 9);
    unlink(scratch_file);
    struct hf_elf elf;
    struct hf_elf_symbol symbol;
    ck_assert_int_eq(hf_elf_open_descriptor(&elf, descriptor), 0);
    ck_assert_int_eq(find_symbol(&elf, "PyInit_sample", &symbol), 0);
    ck_assert_str_eq(symbol.name, "PyInit_sample");
    ck_assert_str_eq(symbol.version, "SAMPLE_1.0");
    ck_assert(symbol.defined && symbol.type == STT_FUNC && symbol.value != 0);
    ck_assert_int_eq(find_symbol(&elf, "sample_local", &symbol), 0); /* .symtab only */
    ck_assert_int_eq(symbol.binding, STB_LOCAL);
    ck_assert_int_eq(find_symbol(&elf, "malloc", &symbol), -ENOENT); /* not defined here */
    hf_elf_close(&elf);
    hf_elf_close(&elf);
    ck_assert_int_eq(lseek(descriptor, 0, SEEK_CUR), 9);
    close(descriptor);
    ck_assert_int_eq(hf_elf_open_descriptor(&elf, descriptor), -EBADF);
    image_free(&image);
}
END_TEST

/* A file that shrinks after it was opened: an error, not the SIGBUS that a mapping would cause. */
START_TEST(cut_while_open)
{
    struct image image = image_read(path);
    write_file(image.data, image.size);
    struct hf_elf elf;
    struct hf_elf_symbol symbol;
    ck_assert_int_eq(hf_elf_open(&elf, scratch_file), 0);
    ck_assert_int_eq(truncate(scratch_file, 100), 0);
    ck_assert_int_eq(find_symbol(&elf, "PyInit_sample", &symbol), -ENOEXEC);
    ck_assert_str_eq(elf.why, "the file was cut short while it was read");
    hf_elf_close(&elf);
    image_free(&image);
}
END_TEST

/* What is read of a file's symbols, and the permissions of the memory that has their names. */
struct symbols {
    size_t count;
    uint64_t sum;
    char permissions[8];
};

static bool add_symbol(const struct hf_elf_symbol *symbol, void *context)
{
    struct symbols *symbols = context;
    symbols->count++;
    symbols->sum = symbols->sum * 31 + symbol->value + symbol->section;
    for (const char *at = symbol->name; *at != '\0'; at++)
        symbols->sum = symbols->sum * 31 + (unsigned char)*at;
    return true;
}

static struct symbols symbols_of(const char *name, bool map)
{
    struct hf_elf elf;
    struct symbols symbols = {.count = 0};
    ck_assert_int_eq(hf_elf_open(&elf, name), 0);
    if (map)
        hf_elf_map_tables(&elf);
    ck_assert_int_eq(hf_elf_symbols(&elf, HF_ELF_SYMTAB, add_symbol, &symbols), 0);
    strncpy(symbols.permissions, permissions_at(elf.parts[HF_ELF_PART_STRTAB].data),
            sizeof symbols.permissions - 1);
    hf_elf_close(&elf);
    return symbols;
}

/* Makes the byte that ends the table of names something else. */
static void damage_names(struct image *image)
{
    struct hf_elf elf;
    Elf64_Shdr section;
    const char *name;
    ck_assert_int_eq(hf_elf_open_memory(&elf, image->data, image->size), 0);
    for (size_t cursor = 0; hf_elf_section(&elf, &cursor, &section, &name);)
        if (strcmp(name, ".strtab") == 0)
            image->data[section.sh_offset + section.sh_size - 1] = 'x';
    hf_elf_close(&elf);
}

/* Mapped tables say the same as those that are read. What cannot be trusted is read. */
START_TEST(large_tables_are_mapped)
{
    const struct symbols read = symbols_of(large_path, false),
                         mapped = symbols_of(large_path, true);
    ck_assert_uint_gt(read.count, 1000);
    ck_assert_uint_eq(mapped.count, read.count);
    ck_assert_uint_eq(mapped.sum, read.sum);
    ck_assert_str_eq(read.permissions, "rw-p");
    ck_assert_str_eq(mapped.permissions, "r--p");

    struct image image = image_read(large_path);
    damage_names(&image);
    write_file(image.data, image.size);
    ck_assert_uint_eq(symbols_of(scratch_file, true).sum, symbols_of(scratch_file, false).sum);
    ck_assert_str_eq(symbols_of(scratch_file, true).permissions, "rw-p");

    struct hf_elf elf;
    struct symbols none = {.count = 0};
    ck_assert_int_eq(hf_elf_open(&elf, scratch_file), 0);
    hf_elf_map_tables(&elf);
    ck_assert(hf_elf_section(&elf, &(size_t){0}, &(Elf64_Shdr){0}, NULL));
    ck_assert_int_eq(truncate(scratch_file, 4096), 0);
    ck_assert_int_eq(hf_elf_symbols(&elf, HF_ELF_SYMTAB, add_symbol, &none), -ENOEXEC);
    hf_elf_close(&elf);
    image_free(&image);
}
END_TEST

START_TEST(separate_debug_file)
{
    struct hf_elf elf, debug;
    unsigned char id[20];
    ck_assert_int_eq(hf_elf_open(&elf, path), 0);
    ck_assert_uint_eq(hf_elf_build_id(&elf, id, sizeof id), sizeof id);
    ck_assert_int_eq(hf_elf_open_debug(&debug, &elf, scratch_directory), -ENOENT);
    char name[256];
    snprintf(name, sizeof name, "%s/.build-id", scratch_directory);
    ck_assert_int_eq(mkdir(name, 0700), 0);
    snprintf(name, sizeof name, "%s/.build-id/%02x", scratch_directory, id[0]);
    ck_assert_int_eq(mkdir(name, 0700), 0);
    int length = snprintf(name, sizeof name, "%s/.build-id/%02x/", scratch_directory, id[0]);
    for (size_t i = 1; i < sizeof id; i++)
        length += snprintf(name + length, sizeof name - (size_t)length, "%02x", id[i]);
    snprintf(name + length, sizeof name - (size_t)length, ".debug");
    char *real = realpath(path, NULL);
    ck_assert_ptr_nonnull(real);
    ck_assert_int_eq(symlink(real, name), 0);
    free(real);
    struct hf_elf_symbol symbol;
    ck_assert_int_eq(hf_elf_open_debug(&debug, &elf, scratch_directory), 0);
    ck_assert_int_eq(find_symbol(&debug, "sample_local", &symbol), 0);
    hf_elf_close(&debug);
    hf_elf_close(&elf);
    unlink(name);
    snprintf(name, sizeof name, "%s/.build-id/%02x", scratch_directory, id[0]);
    rmdir(name);
    snprintf(name, sizeof name, "%s/.build-id", scratch_directory);
    rmdir(name);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&path, &large_path);
    TCase *tcase =
        NEW_CASE("opening", no_file, forbidden, not_elf, other_machines, both_machines_are_read,
                 by_descriptor, cut_while_open, large_tables_are_mapped, separate_debug_file);
    tcase_set_timeout(tcase, 20);
    tcase_add_checked_fixture(tcase, make_scratch, remove_scratch);
    return RUN_CASES("opening", tcase);
}
