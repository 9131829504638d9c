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
    return RUN_SUITE(as_comparing_with_each, patterns_that_are_none, allocators, rules);
}
