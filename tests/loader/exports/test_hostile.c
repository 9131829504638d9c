/*
 * Object files and archives may come from anywhere. Every byte of small ones is changed, thousands
 * of copies are damaged at random (the same seed gives the same copies), and counts and names are
 * set to what makes a reader slow: one that reads a table or a name as often as the file mentions
 * it takes hours for a few megabytes. There must be an answer each time, and in time.
 *
 *   test-exports-hostile SEED ROUNDS
 */
#include "fixture.h"
#include "loader/command/exports/object_names.h"
#include "loader/elf/archive.h"
#include "loader/elf/elf_object.h"

#include "random.h"
#include "suite.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define GLOBAL_FUNCTION ELF64_ST_INFO(STB_GLOBAL, STT_FUNC)

static unsigned long rounds;
static int file; /* in memory, because disks are slow and wear out */

static void setup(void)
{
    file = memfd_create("homefree-hostile", MFD_CLOEXEC);
    ck_assert_int_ge(file, 0);
}

static void teardown(void)
{
    close(file);
}

static int ignore(const char *symbol, void *argument)
{
    (void)symbol;
    ++*(size_t *)argument;
    return 0;
}

/* Reads `file`. If `why` is given, the error message must contain it. */
static int read_file(const char *why)
{
    char path[64], told[160];
    size_t found = 0;
    struct hf_objects_seen seen = {0};
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    const int result = hf_objects_read(path, ignore, &found, &seen, told, sizeof told);
    ck_assert_int_eq(result == 0, told[0] == '\0');
    ck_assert(result == 0 || result == -ENOEXEC || result == -EFBIG);
    ck_assert_uint_eq(found, seen.defined);
    if (why != NULL)
        ck_assert_msg(strstr(told, why) != NULL, "'%s' is not in: %s", why, told);
    return result;
}

static void put(const void *bytes, size_t size, uint64_t at)
{
    ck_assert_int_eq(pwrite(file, bytes, size, (off_t)at), (ssize_t)size);
}

static int read_bytes(const void *bytes, size_t size)
{
    ck_assert_int_eq(ftruncate(file, 0), 0);
    put(bytes, size, 0);
    return read_file(NULL);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- other machines ------------------------------------------------------------------------- */

static void put_number(unsigned char *at, uint64_t value, size_t width, bool big)
{
    for (size_t i = 0; i < width; i++)
        at[big ? width - 1 - i : i] = (unsigned char)(value >> 8 * i);
}

/* A 32-bit object: header, symbols, names, three section headers. */
static size_t small_object(unsigned char out[512], bool big)
{
    static const char names[] = "\0PyInit_small";
    const size_t symbols = sizeof(Elf32_Ehdr), symbols_size = 2 * sizeof(Elf32_Sym),
                 strings = symbols + symbols_size, sections = strings + 16;
    memset(out, 0, 512);
    memcpy(out, ELFMAG, SELFMAG);
    out[EI_CLASS] = ELFCLASS32;
    out[EI_DATA] = big ? ELFDATA2MSB : ELFDATA2LSB;
    out[EI_VERSION] = EV_CURRENT;
#define PUT(at, type, member, value) \
    put_number(out + (at) + offsetof(type, member), value, sizeof(((type *)0)->member), big)
    PUT(0, Elf32_Ehdr, e_type, ET_REL);
    PUT(0, Elf32_Ehdr, e_machine, big ? EM_PPC : EM_ARM);
    PUT(0, Elf32_Ehdr, e_version, EV_CURRENT);
    PUT(0, Elf32_Ehdr, e_shoff, sections);
    PUT(0, Elf32_Ehdr, e_shentsize, sizeof(Elf32_Shdr));
    PUT(0, Elf32_Ehdr, e_shnum, 3);
    const size_t symbol = symbols + sizeof(Elf32_Sym);
    PUT(symbol, Elf32_Sym, st_name, 1);
    PUT(symbol, Elf32_Sym, st_info, GLOBAL_FUNCTION);
    PUT(symbol, Elf32_Sym, st_shndx, SHN_ABS);
    memcpy(out + strings, names, sizeof names);
    const size_t table = sections + sizeof(Elf32_Shdr), text = table + sizeof(Elf32_Shdr);
    PUT(table, Elf32_Shdr, sh_type, SHT_SYMTAB);
    PUT(table, Elf32_Shdr, sh_offset, symbols);
    PUT(table, Elf32_Shdr, sh_size, symbols_size);
    PUT(table, Elf32_Shdr, sh_link, 2);
    PUT(table, Elf32_Shdr, sh_entsize, sizeof(Elf32_Sym));
    PUT(text, Elf32_Shdr, sh_type, SHT_STRTAB);
    PUT(text, Elf32_Shdr, sh_offset, strings);
    PUT(text, Elf32_Shdr, sh_size, sizeof names);
#undef PUT
    return text + sizeof(Elf32_Shdr);
}

START_TEST(objects_of_other_machines_are_read)
{
    unsigned char bytes[512];
    char why[160], path[64];
    size_t found = 0;
    struct hf_objects_seen seen = {0};
    ck_assert_int_eq(read_bytes(bytes, small_object(bytes, _i == 1)), 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    ck_assert_int_eq(hf_objects_read(path, ignore, &found, &seen, why, sizeof why), 0);
    ck_assert_uint_eq(found, 1);
}
END_TEST

/* ---- changed bytes --------------------------------------------------------------------------- */

static const struct fixture_symbol symbols[] = {
    {"PyInit_one", GLOBAL_FUNCTION, STV_DEFAULT, 1},
    {"PyInit_far", GLOBAL_FUNCTION, STV_DEFAULT, SHN_XINDEX},
    {"PyInit_hidden", GLOBAL_FUNCTION, STV_HIDDEN, 1},
    {"other", GLOBAL_FUNCTION, STV_DEFAULT, 1},
};

/* The files whose bytes are changed: an object, an archive of two, a 32-bit object. */
static void make(struct fixture *out, int which)
{
    struct fixture object;
    fixture_object(&object, ET_REL, symbols, sizeof symbols / sizeof symbols[0]);
    const struct fixture *members[] = {&object, &object};
    if (which == 0)
        *out = object;
    else if (which == 1)
        fixture_archive(out, members, 2);
    else
        out->size = small_object(out->bytes, which == 3);
}

START_TEST(every_byte_changed)
{
    static const unsigned char masks[] = {0xff, 0x01, 0x80, 0x40};
    struct fixture whole;
    make(&whole, _i);
    ck_assert_int_eq(read_bytes(whole.bytes, whole.size), 0);
    for (size_t at = 0; at < whole.size; at++)
        for (size_t m = 0; m < sizeof masks; m++) {
            const unsigned char changed = whole.bytes[at] ^ masks[m];
            put(&changed, 1, at);
            read_file(NULL);
            put(&whole.bytes[at], 1, at);
        }
}
END_TEST

START_TEST(thousands_damaged)
{
    static const uint64_t values[] = {0,          1,          0x7fff,     0xffff,
                                      0x7fffffff, 0xffffffff, UINT64_MAX, UINT64_C(1) << 63};
    struct fixture whole;
    unsigned long understood = 0;
    make(&whole, _i);
    for (unsigned long round = 0; round < rounds; round++) {
        struct fixture copy = whole;
        for (uint64_t changes = 1 + random_below(4); changes > 0; changes--) {
            const size_t width = (size_t)1 << random_below(4), at = random_below(copy.size - width);
            uint64_t value =
                random_below(2) == 0 ? values[random_below(8)] : random_below(copy.size);
            if (random_below(8) == 0)
                value = (uint64_t)'0' * UINT64_C(0x0101010101010101) +
                        random_below(9); /* for archives */
            memcpy(copy.bytes + at, &value, width);
        }
        understood +=
            read_bytes(copy.bytes, random_below(8) == 0 ? random_below(copy.size) : copy.size) == 0;
    }
    /* If nearly all changed files were refused at the header, only that check would be tested. */
    ck_assert_uint_gt(understood * 50, rounds);
}
END_TEST

/* ---- time ------------------------------------------------------------------------------------ */

struct table {
    uint64_t names_size, symbols, sections;
};

/* An object with that many symbols of one name, and that many symbol tables over them. The name is
 * "PyInit_" and as many letters as fit. */
static void put_object(const struct table *table)
{
    const uint64_t names = sizeof(Elf64_Ehdr), first = names + (table->names_size + 7) / 8 * 8,
                   sections = first + (table->symbols + 1) * sizeof(Elf64_Sym);
    const uint64_t count = table->sections + 2;
    const Elf64_Ehdr header = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_REL,
        .e_machine = EM_X86_64,
        .e_version = EV_CURRENT,
        .e_shoff = sections,
        .e_shentsize = sizeof(Elf64_Shdr),
    };
    const Elf64_Shdr zero = {.sh_size = count}, /* the count is here if e_shnum is 0 */
        text = {.sh_type = SHT_STRTAB, .sh_offset = names, .sh_size = table->names_size},
                     list = {.sh_type = SHT_SYMTAB,
                             .sh_offset = first,
                             .sh_size = (table->symbols + 1) * sizeof(Elf64_Sym),
                             .sh_link = 1,
                             .sh_entsize = sizeof(Elf64_Sym)};
    const Elf64_Sym symbol = {.st_name = 1, .st_info = GLOBAL_FUNCTION, .st_shndx = SHN_ABS};
    char *letters = malloc(table->names_size);
    memset(letters, 'x', table->names_size);
    letters[0] = letters[table->names_size - 1] = '\0';
    memcpy(letters + 1, "PyInit_", 7);
    ck_assert_int_eq(ftruncate(file, 0), 0);
    put(&header, sizeof header, 0);
    put(letters, table->names_size, names);
    free(letters);
    Elf64_Sym *all = calloc(table->symbols + 1, sizeof *all);
    for (uint64_t i = 1; i <= table->symbols; i++)
        all[i] = symbol;
    put(all, (table->symbols + 1) * sizeof *all, first);
    free(all);
    Elf64_Shdr *headers = calloc(count, sizeof *headers);
    headers[0] = zero;
    headers[1] = text;
    for (uint64_t i = 2; i < count; i++)
        headers[i] = list;
    put(headers, count * sizeof *headers, sections);
    free(headers);
}

START_TEST(what_is_said_often_is_not_read_often)
{
    static const struct {
        struct table table;
        int result;
        const char *why;
    } cases[] = {
        {{4 << 20, 200000, 1}, -ENOEXEC, "no version script can hold"},
        {{64, 100000, 100000}, -ENOEXEC, "two symbol tables"},
        {{2000, 200000, 1}, 0, ""},
        {{64, 1, 1 << 17}, -ENOEXEC, "two symbol tables"},
    };
    const double before = seconds();
    put_object(&cases[_i].table);
    ck_assert_int_eq(read_file(cases[_i].why), cases[_i].result);
    ck_assert_double_lt(seconds() - before, 20);
}
END_TEST

/* A sparse file costs its writer nothing. */
START_TEST(tables_of_gigabytes_are_refused)
{
    struct fixture object;
    fixture_object(&object, ET_REL, symbols, 1);
    const uint64_t size = UINT64_C(1) << 40;
    ck_assert_int_eq(ftruncate(file, 0), 0);
    put(object.bytes, object.size, 0);
    if (ftruncate(file, (off_t)size + 4096) != 0)
        return; /* larger than a file can be on this machine */
    put(&size, sizeof size, fixture_symbols_header(&object) + offsetof(Elf64_Shdr, sh_size));
    ck_assert_int_eq(read_file("larger than"), -EFBIG);
}
END_TEST

/* ---- archives -------------------------------------------------------------------------------- */

static size_t put_member(char *out, const char *name, const char *size, const char *data)
{
    return (size_t)sprintf(out, "%-16s%-12d%-6d%-6d%-8o%-10s`\n%s", name, 0, 0, 0, 0644U, size,
                           data);
}

START_TEST(sizes_of_members_are_checked)
{
    static const struct {
        const char *size;
        int members; /* members before the end or the error */
        int result;
    } sizes[] = {
        {"4", 2, 0},
        {"0004", 2, 0},
        {"3", 2, 0},
        {"5", 1, -ENOEXEC},
        {"", 0, -ENOEXEC},
        {"-4", 0, -ENOEXEC},
        {"+4", 0, -ENOEXEC},
        {"0x4", 0, -ENOEXEC},
        {"4 4", 0, -ENOEXEC},
        {"4294967300", 0, -ENOEXEC},
        {"9999999999", 0, -ENOEXEC},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char bytes[256] = "!<arch>\n";
        size_t size = 8 + put_member(bytes + 8, "a.o/", sizes[i].size, "text");
        size += put_member(bytes + size, "b.o/", "4", "text");
        read_bytes(bytes, size);
        struct hf_archive archive;
        struct hf_archive_member member;
        int members = 0, more;
        hf_archive_begin(&archive, file, size);
        while ((more = hf_archive_next(&archive, &member)) == 1)
            members++;
        ck_assert_msg(more == sizes[i].result && members == sizes[i].members,
                      "size '%s': %d after %d members", sizes[i].size, more, members);
    }
}
END_TEST

START_TEST(indexes_are_no_members)
{
    static const struct {
        const char *name;
        bool index;
    } names[] = {
        {"/", true}, {"//", true}, {"/SYM64/", true}, {"/12", false}, {"a.o/", false}, {"", false},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char bytes[128] = "!<arch>\n";
        /* An index of 2135247942 symbols begins with the bytes of an ELF file. */
        const size_t size = 8 + put_member(bytes + 8, names[i].name, "4", "\177ELF");
        struct hf_archive archive;
        struct hf_archive_member member;
        ck_assert_int_eq(read_bytes(bytes, size), -ENOEXEC);
        hf_archive_begin(&archive, file, size);
        ck_assert_int_eq(hf_archive_next(&archive, &member), 1);
        ck_assert_int_eq(member.index, names[i].index);
        ck_assert_int_eq(hf_archive_next(&archive, &member), 0);
    }
}
END_TEST

START_TEST(members_of_nothing_end)
{
    enum { COUNT = 100000 };
    char member[64];
    const size_t size = put_member(member, "a.o/", "0", "");
    char *bytes = malloc(8 + COUNT * size);
    memcpy(bytes, "!<arch>\n", 8);
    for (size_t i = 0; i < COUNT; i++)
        memcpy(bytes + 8 + i * size, member, size);
    ck_assert_int_eq(read_bytes(bytes, 8 + COUNT * size), -ENOEXEC);
    free(bytes);
}
END_TEST

int main(int count, char **arguments)
{
    if (count != 3)
        return EXIT_FAILURE;
    rounds = random_rounds(arguments);
    TCase *tcase = tcase_create("hostile");
    tcase_set_timeout(tcase, 200);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, objects_of_other_machines_are_read, 0, 2);
    tcase_add_loop_test(tcase, every_byte_changed, 0, 4);
    tcase_add_loop_test(tcase, thousands_damaged, 0, 4);
    tcase_add_loop_test(tcase, what_is_said_often_is_not_read_often, 0, 4);
    tcase_add_test(tcase, tables_of_gigabytes_are_refused);
    tcase_add_test(tcase, sizes_of_members_are_checked);
    tcase_add_test(tcase, indexes_are_no_members);
    tcase_add_test(tcase, members_of_nothing_end);
    return RUN_CASES("hostile objects", tcase);
}
