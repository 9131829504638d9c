/*
 * test_objects.c - initialization functions are read out of objects, archives and shared objects,
 * and out of damaged ones comes an error: these files may come from anywhere.
 */
#include "fixture.h"
#include "loader/command/exports/object_names.h"
#include "scratch.h"
#include "suite.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FUNCTION(binding) ELF64_ST_INFO(binding, STT_FUNC)

static char found[512]; /* what was found, each followed by a space */
static char why[160];
static struct hf_objects_seen seen;

static int remember(const char *symbol, void *argument)
{
    (void)argument;
    const size_t used = strlen(found);
    snprintf(found + used, sizeof found - used, "%s ", symbol);
    return 0;
}

static int stop(const char *symbol, void *argument)
{
    (void)symbol;
    (void)argument;
    return 7;
}

/* Reads the file at `path`. */
static int read_path(void)
{
    memset(&seen, 0, sizeof seen);
    found[0] = '\0';
    memset(why, 'x', sizeof why);
    const int result = hf_objects_read(scratch_file, remember, NULL, &seen, why, sizeof why);
    ck_assert_ptr_nonnull(memchr(why, '\0', sizeof why));
    ck_assert_ptr_null(strchr(why, '\n'));
    ck_assert_int_eq(result == 0, why[0] == '\0');
    return result;
}

static int read_bytes(const void *bytes, size_t size)
{
    fixture_write(scratch_file, bytes, size);
    return read_path();
}

static int read_symbols(uint16_t type, const struct fixture_symbol *symbols, size_t count)
{
    struct fixture object;
    fixture_object(&object, type, symbols, count);
    return read_bytes(object.bytes, object.size);
}

static const struct fixture_symbol mixed[] = {
    {"PyInit_local", FUNCTION(STB_LOCAL), STV_DEFAULT, 1},
    {"helper", FUNCTION(STB_GLOBAL), STV_DEFAULT, 1},
    {"PyInit_one", FUNCTION(STB_GLOBAL), STV_DEFAULT, 1},
    {"PyInit_wanted", FUNCTION(STB_GLOBAL), STV_DEFAULT, SHN_UNDEF},
    {"PyInit_data", ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), STV_DEFAULT, 1},
    {"PyInit_weak", FUNCTION(STB_WEAK), STV_DEFAULT, 1},
    {"PyInit_hidden", FUNCTION(STB_GLOBAL), STV_HIDDEN, 1},
    {"PyInit_untyped", ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE), STV_PROTECTED, 1},
    {"PyInit_", FUNCTION(STB_GLOBAL), STV_DEFAULT, 1},
    {"PyInitU_gfs105b", FUNCTION(STB_GLOBAL), STV_DEFAULT, 1},
    {"PyModExport_one", FUNCTION(STB_GLOBAL), STV_DEFAULT, 1},
    {"PyModExportU_gfs105b", FUNCTION(STB_WEAK), STV_DEFAULT, 1},
    {"PyModExport_hidden", FUNCTION(STB_GLOBAL), STV_HIDDEN, 1},
    {"PyModExport_wanted", FUNCTION(STB_GLOBAL), STV_DEFAULT, SHN_UNDEF},
};
enum { MIXED_COUNT = sizeof mixed / sizeof mixed[0] };

static const char mixed_found[] = "PyInit_one PyInit_weak PyInit_untyped PyInitU_gfs105b "
                                  "PyModExport_one PyModExportU_gfs105b ";

/* ---- what is found ------------------------------------------------------------------------- */

START_TEST(only_what_can_be_exported_is_found)
{
    static const uint16_t types[] = {ET_REL, ET_DYN};
    ck_assert_int_eq(read_symbols(types[_i], mixed, MIXED_COUNT), 0);
    ck_assert_str_eq(found, mixed_found);
    ck_assert_uint_eq(seen.objects, 1);
    ck_assert_uint_eq(seen.defined, 6);
    ck_assert_uint_eq(seen.hidden, 2);
}
END_TEST

START_TEST(all_members_of_an_archive_are_read)
{
    struct fixture one, none, text = {.bytes = "just a text\n", .size = 12}, archive;
    fixture_object(&one, ET_REL, mixed + 2, 1);
    fixture_object(&none, ET_REL, NULL, 0);
    const struct fixture *members[] = {&none, &text, &one, &one};
    fixture_archive(&archive, members, 4);
    ck_assert_int_eq(read_bytes(archive.bytes, archive.size), 0);
    ck_assert_str_eq(found, "PyInit_one PyInit_one ");
    ck_assert_uint_eq(seen.objects, 3);
}
END_TEST

/* BSD's ar, and llvm-ar on request, put a long name in front of the member's content. */
START_TEST(members_with_bsd_names_are_read)
{
    enum { NAME = 20, HEADER = 60 };
    struct fixture one, index = {.size = NAME + 8}, named, archive;
    fixture_object(&one, ET_REL, mixed + 2, 1);
    memcpy(index.bytes, "__.SYMDEF SORTED", 17);
    memcpy(named.bytes, "a_very_long_name.o\0\0", NAME);
    memcpy(named.bytes + NAME, one.bytes, one.size);
    named.size = NAME + one.size;
    const struct fixture *members[] = {&index, &named, &one};
    fixture_archive(&archive, members, 3);
    memcpy(archive.bytes + 8, "#1/20           ", 16);
    memcpy(archive.bytes + 8 + HEADER + index.size, "#1/20           ", 16);
    ck_assert_int_eq(read_bytes(archive.bytes, archive.size), 0);
    ck_assert_str_eq(found, "PyInit_one PyInit_one ");
    memcpy(archive.bytes + 8, "#1/29           ", 16); /* longer than the member */
    ck_assert_int_eq(read_bytes(archive.bytes, archive.size), -ENOEXEC);
    memcpy(archive.bytes + 8, "#1/x            ", 16);
    ck_assert_int_eq(read_bytes(archive.bytes, archive.size), -ENOEXEC);
}
END_TEST

START_TEST(an_archive_of_texts_is_refused_and_an_empty_one_is_not)
{
    struct fixture text = {.bytes = "just a text\n", .size = 12}, archive;
    const struct fixture *members[] = {&text};
    fixture_archive(&archive, members, 1);
    ck_assert_int_eq(read_bytes(archive.bytes, archive.size), -ENOEXEC);
    fixture_archive(&archive, members, 0);
    ck_assert_int_eq(read_bytes(archive.bytes, archive.size), 0);
    ck_assert_str_eq(found, "");
}
END_TEST

START_TEST(an_archive_with_bitcode_is_refused)
{
    struct fixture one, bitcode = {.bytes = "BC\xc0\xde", .size = 4}, archive;
    fixture_object(&one, ET_REL, mixed + 2, 1);
    const struct fixture *members[] = {&one, &bitcode};
    fixture_archive(&archive, members, 2);
    ck_assert_int_eq(read_bytes(archive.bytes, archive.size), -ENOEXEC);
    ck_assert_ptr_nonnull(strstr(why, "bitcode"));
}
END_TEST

START_TEST(the_reader_stops_when_told)
{
    struct fixture object;
    fixture_object(&object, ET_REL, mixed, MIXED_COUNT);
    fixture_write(scratch_file, object.bytes, object.size);
    ck_assert_int_eq(hf_objects_read(scratch_file, stop, NULL, &seen, why, sizeof why), 7);
    ck_assert_str_eq(why, "");
}
END_TEST

START_TEST(no_descriptor_is_left_open)
{
    const int before = dup(0);
    close(before);
    ck_assert_int_eq(read_symbols(ET_REL, mixed, MIXED_COUNT), 0);
    ck_assert_int_eq(read_bytes("x", 1), -ENOEXEC);
    const int after = dup(0);
    close(after);
    ck_assert_int_eq(before, after);
}
END_TEST

/* ---- what is refused ------------------------------------------------------------------------ */

START_TEST(other_files_are_refused_by_name_of_what_they_are)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *why;
    } files[] = {
        {"", 0, "is empty"},
        {"int main;\n", 10, "is not an object file"},
        {"\x7f"
         "ELF",
         4, "is not an object file"},
        {"!<thin>\n", 8, "thin archive"},
        {"BC\xc0\xde....", 8, "bitcode"},
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        ck_assert_int_eq(read_bytes(files[i].bytes, files[i].size), -ENOEXEC);
        ck_assert_msg(strstr(why, files[i].why) != NULL, "file %zu: %s", i, why);
    }
}
END_TEST

START_TEST(what_is_no_file_is_refused)
{
    ck_assert_int_eq(read_path(), -ENOENT);
    ck_assert_int_eq(mkfifo(scratch_file, 0600), 0);
    ck_assert_int_eq(read_path(), -ENOEXEC); /* must not wait for a writer */
    unlink(scratch_file);
    snprintf(scratch_file, sizeof scratch_file, "%s", scratch_directory);
    ck_assert_int_eq(read_path(), -EISDIR);
}
END_TEST

START_TEST(programs_are_refused)
{
    ck_assert_int_eq(read_symbols(ET_EXEC, mixed, MIXED_COUNT), -ENOEXEC);
    ck_assert_int_eq(read_symbols(ET_CORE, mixed, MIXED_COUNT), -ENOEXEC);
}
END_TEST

START_TEST(code_that_is_still_to_be_compiled_is_refused)
{
    static const struct fixture_symbol slim[] = {
        {"__gnu_lto_slim", ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), STV_DEFAULT, SHN_COMMON},
    };
    ck_assert_int_eq(read_symbols(ET_REL, slim, 1), -ENOEXEC);
    ck_assert_ptr_nonnull(strstr(why, "-ffat-lto-objects"));
}
END_TEST

START_TEST(a_symbol_that_would_write_into_the_script_is_refused)
{
    static const char *const names[] = {
        "PyInit_x; evil", "PyInit_*", "PyInit_x\n", "PyInit_\"", "PyInit_\xff",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct fixture_symbol symbol = {names[i], FUNCTION(STB_GLOBAL), STV_DEFAULT, 1};
        ck_assert_int_eq(read_symbols(ET_REL, &symbol, 1), -ENOEXEC);
        ck_assert_str_eq(found, "");
    }
}
END_TEST

START_TEST(tables_that_lead_out_of_the_file_are_refused)
{
    struct fixture object;
    static const struct {
        size_t field, size;
        uint64_t value;
    } lies[] = {
        {offsetof(Elf64_Shdr, sh_offset), 8, 1U << 20},
        {offsetof(Elf64_Shdr, sh_offset), 8, UINT64_MAX - 8},
        {offsetof(Elf64_Shdr, sh_size), 8, 1U << 20},
        {offsetof(Elf64_Shdr, sh_size), 8, UINT64_MAX - 23},
        {offsetof(Elf64_Shdr, sh_link), 4, 77},
        {offsetof(Elf64_Shdr, sh_link), 4, 1},
        {offsetof(Elf64_Shdr, sh_entsize), 8, 0},
        {offsetof(Elf64_Shdr, sh_entsize), 8, 1},
    };
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        fixture_object(&object, ET_REL, mixed, MIXED_COUNT);
        memcpy(object.bytes + fixture_symbols_header(&object) + lies[i].field, &lies[i].value,
               lies[i].size);
        const int result = read_bytes(object.bytes, object.size);
        ck_assert_msg(result == -ENOEXEC, "lie %zu: %d, found '%s'", i, result, found);
    }
}
END_TEST

START_TEST(a_file_cut_short_anywhere_is_refused)
{
    struct fixture object;
    fixture_object(&object, ET_REL, mixed, MIXED_COUNT);
    for (size_t size = 0; size < object.size; size++) {
        const int result = read_bytes(object.bytes, size);
        ck_assert_msg(result == -ENOEXEC, "%zu of %zu bytes: %d", size, object.size, result);
    }
}
END_TEST

START_TEST(an_archive_cut_short_anywhere_gives_no_more_than_it_holds)
{
    struct fixture object, archive;
    fixture_object(&object, ET_REL, mixed + 2, 1);
    const struct fixture *members[] = {&object, &object};
    fixture_archive(&archive, members, 2);
    const size_t first_end = 8 + 60 + object.size;
    for (size_t size = 0; size < archive.size; size++) {
        const int result = read_bytes(archive.bytes, size);
        /* If it is cut exactly between two members, it is an archive of the first ones. */
        if (size == 8 || size == first_end)
            ck_assert_int_eq(result, 0);
        else
            ck_assert_msg(result == -ENOEXEC, "%zu of %zu bytes: %d", size, archive.size, result);
    }
}
END_TEST

/* Every result is right; the reader must only not crash. */
START_TEST(no_changed_byte_crashes_the_reader)
{
    static const unsigned char changes[] = {0x01, 0x80, 0xff};
    struct fixture object, archive;
    fixture_object(&object, ET_REL, mixed, 3);
    const struct fixture *members[] = {&object};
    fixture_archive(&archive, members, 1);
    struct fixture *file = _i == 0 ? &object : &archive;
    for (size_t at = 0; at < file->size; at++)
        for (size_t i = 0; i < sizeof changes; i++) {
            file->bytes[at] ^= changes[i];
            const int result = read_bytes(file->bytes, file->size);
            ck_assert(result == 0 || result == -ENOEXEC);
            file->bytes[at] ^= changes[i];
        }
}
END_TEST

int main(void)
{
    TCase *reading =
        NEW_CASE("reading", all_members_of_an_archive_are_read, members_with_bsd_names_are_read,
                 the_reader_stops_when_told, no_descriptor_is_left_open);
    tcase_add_checked_fixture(reading, make_scratch, remove_scratch);
    tcase_add_loop_test(reading, only_what_can_be_exported_is_found, 0, 2);

    TCase *refusing =
        NEW_CASE("refusing", other_files_are_refused_by_name_of_what_they_are,
                 an_archive_of_texts_is_refused_and_an_empty_one_is_not,
                 an_archive_with_bitcode_is_refused, what_is_no_file_is_refused,
                 programs_are_refused, code_that_is_still_to_be_compiled_is_refused,
                 a_symbol_that_would_write_into_the_script_is_refused,
                 tables_that_lead_out_of_the_file_are_refused, a_file_cut_short_anywhere_is_refused,
                 an_archive_cut_short_anywhere_gives_no_more_than_it_holds);
    tcase_set_timeout(refusing, 120); /* thousands of small files, also under valgrind */
    tcase_add_checked_fixture(refusing, make_scratch, remove_scratch);
    tcase_add_loop_test(refusing, no_changed_byte_crashes_the_reader, 0, 2);
    return RUN_CASES("objects", reading, refusing);
}
