/*
 * Searching for many names at once finds what comparing with each one would find, and the tables of
 * known allocators contain only patterns that can be searched for.
 */
#include "loader/elf/elf_names.h"
#include "loader/inspect/inspect.h"
#include "suite.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *const patterns[] = {
    "malloc", "mi_*", "*mallctl", "free", "f*",    "_ZN8snmalloc*", "*malloc_usable_size",
    "ab",     "abcd", "abcde*",   "a",    "_Znwm", "*free",         "mi_malloc",
};
enum { PATTERNS = sizeof patterns / sizeof patterns[0] };

/* The definition of a match: the first pattern that fnmatch(3) accepts. Suffixes are for the names
 * of C functions. */
static int naive(const char *name)
{
    const bool mangled = name[0] == '_' && (name[1] == 'Z' || name[1] == 'R');
    for (int i = 0; i < PATTERNS; i++)
        if (!(patterns[i][0] == '*' && (mangled || strlen(name) > 127)) &&
            fnmatch(patterns[i], name, 0) == 0)
            return i;
    return -1;
}

static void check_name(const struct hf_names *names, const char *name)
{
    ck_assert_msg(hf_names_match(names, name) == naive(name), "%s: %d, not %d", name,
                  hf_names_match(names, name), naive(name));
}

START_TEST(as_comparing_with_each)
{
    static const char *const words[] = {
        "malloc", "mi_", "mallctl", "free",  "f", "_ZN8snmalloc",       "a",
        "b",      "cd",  "e",       "_Znwm", "_", "malloc_usable_size", "",
        "_Z"};
    enum { WORDS = sizeof words / sizeof words[0] };
    struct hf_names names;
    ck_assert_int_eq(hf_names_prepare(&names, patterns, PATTERNS), 0);
    char name[256];
    for (size_t a = 0; a < WORDS; a++)
        for (size_t b = 0; b < WORDS; b++)
            for (size_t c = 0; c < WORDS; c++) {
                snprintf(name, sizeof name, "%s%s%s", words[a], words[b], words[c]);
                check_name(&names, name);
            }
    for (size_t length = 100; length < 140; length++) {
        memset(name, 'x', length);
        snprintf(name + length - 4, 5, "free");
        check_name(&names, name);
    }
    check_name(&names, "");
}
END_TEST

/* A file with a section header table, the symbols and their names. */
struct table {
    Elf64_Ehdr header;
    Elf64_Shdr sections[3];
    Elf64_Sym symbols[1000];
    char names[8000];
};

struct seen {
    size_t at; /* the last symbol that was visited */
    size_t count;
};

/* Those in between match nothing. */
static bool see(const struct hf_elf_symbol *symbol, size_t pattern, void *context)
{
    struct seen *seen = context;
    ck_assert_int_eq(naive(symbol->name), (int)pattern);
    ck_assert_uint_eq(symbol->value, symbol->index);
    ck_assert_uint_gt(symbol->index, seen->at);
    seen->at = symbol->index;
    seen->count++;
    return true;
}

static bool count_pattern(const struct hf_elf_symbol *symbol, size_t pattern, void *context)
{
    size_t *found = context;
    (void)symbol;
    found[pattern]++;
    return true;
}

/* A table is searched by the first four bytes of each name, which a short name does not have. */
START_TEST(in_a_table)
{
    static const char *const parts[] = {"malloc", "mi_", "mallctl", "free", "f", "_ZN8snmalloc",
                                        "a",      "b",   "cd",      "e",    "_Z"};
    enum { PARTS = sizeof parts / sizeof parts[0] };
    static struct table table;
    struct hf_names names;
    struct hf_elf elf;
    struct seen seen = {0, 0};
    size_t count = 1, size = 1, expected = 0;
    for (size_t a = 0; a < PARTS; a++)
        for (size_t b = 0; b <= PARTS; b++) {
            char *name = table.names + size;
            table.symbols[count] = (Elf64_Sym){.st_name = (Elf64_Word)size,
                                               .st_value = count,
                                               .st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC),
                                               .st_shndx = 1};
            size += (size_t)sprintf(name, "%s%s", parts[a], b < PARTS ? parts[b] : "") + 1;
            expected += naive(name) >= 0;
            count++;
        }
    /* The last name is the shortest, and ends the table. */
    table.symbols[count] = (Elf64_Sym){
        .st_name = (Elf64_Word)size, .st_value = count, .st_info = STT_FUNC, .st_shndx = 1};
    count++;
    memcpy(table.names + size, "ab", 3);
    size += 3;
    expected++;
    table.header = (Elf64_Ehdr){
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_DYN,
        .e_machine = EM_X86_64,
        .e_version = EV_CURRENT,
        .e_ehsize = sizeof table.header,
        .e_shoff = offsetof(struct table, sections),
        .e_shentsize = sizeof(Elf64_Shdr),
        .e_shnum = 3};
    table.sections[1] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                                     .sh_offset = offsetof(struct table, symbols),
                                     .sh_size = count * sizeof(Elf64_Sym),
                                     .sh_entsize = sizeof(Elf64_Sym),
                                     .sh_link = 2};
    table.sections[2] = (Elf64_Shdr){
        .sh_type = SHT_STRTAB, .sh_offset = offsetof(struct table, names), .sh_size = size};
    ck_assert_int_eq(hf_names_prepare(&names, patterns, PATTERNS), 0);
    ck_assert_int_eq(hf_elf_open_memory(&elf, &table, sizeof table), 0);
    ck_assert_int_eq(hf_names_visit(&names, &elf, HF_ELF_SYMTAB, see, &seen), 0);
    ck_assert_uint_eq(seen.count, expected);
    ck_assert_uint_eq(seen.at, count - 1);
    hf_elf_close(&elf);

    /* Without endings, most names are rejected by their start. */
    static const char *const few[] = {"ab", "mi_malloc", "free", "cd*"};
    ck_assert_int_eq(hf_names_prepare(&names, few, 4), 0);
    ck_assert_int_eq(hf_elf_open_memory(&elf, &table, sizeof table), 0);
    size_t found[4] = {0};
    ck_assert_int_eq(hf_names_visit(&names, &elf, HF_ELF_SYMTAB, count_pattern, found), 0);
    ck_assert_uint_eq(found[0], 2); /* "a" "b", and the last */
    ck_assert_uint_eq(found[1], 1);
    ck_assert_uint_eq(found[2], 1);
    ck_assert_uint_eq(found[3], PARTS + 1);
    hf_elf_close(&elf);
}
END_TEST

START_TEST(patterns_that_are_none)
{
    struct hf_names names;
    static const char *const wrong[] = {"", "*", "a*b", "*ab*c", "*abc", "**", "a**", "*abcd*"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ck_assert_msg(hf_names_prepare(&names, &wrong[i], 1) == -EINVAL, "%s", wrong[i]);
    ck_assert_int_eq(hf_names_prepare(&names, patterns, HF_NAMES_MAX + 1), -E2BIG);
    ck_assert_int_eq(hf_names_prepare(&names, NULL, 0), 0);
    ck_assert_int_eq(hf_names_match(&names, "malloc"), -1);
}
END_TEST

START_TEST(allocators)
{
    struct hf_names names;
    ck_assert_int_eq(hf_names_prepare(&names, hf_allocator_patterns, hf_allocator_patterns_count),
                     0);
    for (size_t i = 0; i < hf_allocator_strings_count; i++) {
        ck_assert_uint_ge(hf_allocator_strings[i].length, 8);
        ck_assert_uint_lt(hf_allocator_strings[i].length, 64);
    }
    /* A function to call is of no use if nothing recognises its allocator. */
    for (size_t i = 0; i < hf_allocator_releases_count; i++)
        ck_assert_ptr_nonnull(hf_allocator_releases[i].name);
    char name[64];
    const size_t length = hf_allocator_prefix("*mallctl", "je_arrow_mallctl");
    ck_assert_uint_eq(length, 9);
    ck_assert(hf_allocator_function(name, sizeof name, "*free", "je_arrow_mallctl", length));
    ck_assert_str_eq(name, "je_arrow_free");
    ck_assert(hf_allocator_function(name, 8, "mi_free", "", 0));
    ck_assert_str_eq(name, "mi_free");
    ck_assert(!hf_allocator_function(name, 7, "mi_free", "", 0));
    ck_assert(!hf_allocator_function(name, 13, "*free", "je_arrow_mallctl", length));
    ck_assert_uint_eq(hf_allocator_prefix("*mallctl", "mallctl"), 0);
    ck_assert_uint_eq(hf_allocator_prefix("mi_malloc", "mi_malloc"), 0);
}
END_TEST

/* Every rule can be displayed: it has a name for scripts and sentences for people. */
START_TEST(rules)
{
    for (size_t i = 0; i < HF_RULE_COUNT; i++) {
        const struct hf_rule_text *rule = &hf_rules[i];
        ck_assert_uint_eq(strspn(rule->name, "abcdefghijklmnopqrstuvwxyz-"), strlen(rule->name));
        ck_assert_int_eq(rule->explanation[strlen(rule->explanation) - 1], '.');
        ck_assert_int_eq(rule->remedy[strlen(rule->remedy) - 1], '.');
        for (size_t j = 0; j < i; j++)
            ck_assert_str_ne(rule->name, hf_rules[j].name);
    }
}
END_TEST

int main(void)
{
    return RUN_SUITE(as_comparing_with_each, in_a_table, patterns_that_are_none, allocators, rules);
}
