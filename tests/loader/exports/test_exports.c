/*
 * test_exports.c - the rules for names and the text of the version script, as plain functions.
 * A wrong answer here exports the wrong symbol, and the module cannot be imported.
 */
#include "loader/command/exports/version_script.h"
#include "loader/inspect/module_functions.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct hf_keep keep;
static struct hf_exports list;

static void setup(void)
{
    hf_exports_begin(&list, &keep);
}

static void teardown(void)
{
    hf_keep_release(&keep);
}

/* The script, to be freed. */
static char *script_of(const char *node)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    ck_assert_ptr_nonnull(out);
    hf_exports_script(&list, node, out);
    ck_assert_int_eq(fclose(out), 0);
    return text;
}

/* ---- modules -------------------------------------------------------------------------------- */

/* The encoding of Python's str.encode('punycode'), with underscores instead of hyphens. */
static const struct {
    const char *name, *rest;
} modules[] = {
    {"spam", "_spam"},
    {"_", "__"},
    {"_x9", "__x9"},
    {"A.b.Cd", "_Cd"},
    {"l\u00f6wis", "U_lwis_5qa"},
    {"\u6a21\u5757", "U_gfs105b"},
    {"\u00e9", "U_9ca"},
    {"na\u00efve_mod", "U_nave_mod_v2a"},
    {"a_\u00e9", "U_a__cja"},
    {"\u6a21\u5757.spam", "_spam"},
};

/* PyModExport is what CPython 3.15 looks for first, PyInit what every CPython knows (PEP 793). */
START_TEST(a_module_may_have_each_function_that_python_calls)
{
    char symbol[HF_EXPORTS_REST_SIZE + 32], rest[HF_EXPORTS_REST_SIZE];
    ck_assert_ptr_null(hf_exports_module_fault(modules[_i].name));
    hf_exports_add_module(&list, modules[_i].name);
    ck_assert_uint_eq(list.count, 2);
    snprintf(symbol, sizeof symbol, "PyModExport%s", modules[_i].rest);
    ck_assert_str_eq(list.entries[0].symbol, symbol);
    snprintf(symbol, sizeof symbol, "PyInit%s", modules[_i].rest);
    ck_assert_str_eq(list.entries[1].symbol, symbol);
    ck_assert(list.entries[0].optional && list.entries[1].optional);
    hf_exports_module_rest(modules[_i].name, rest);
    ck_assert_str_eq(rest, modules[_i].rest);
}
END_TEST

static const char *const no_modules[] = {
    "",
    "9lives",
    "my-module",
    "a b",
    ".",
    ".a",
    "a.",
    "a..b",
    "a.9",
    "dir/a",
    "a*",
    "a;",
    "a\nb",
    "a\xff",
    "a\xc0\x80",
    "a\xed\xa0\x80",
    "a\xe2\x82",
    "a\xf4\x90\x80\x80",
    "a\xf0\x8f\xbf\xbf",
    "a\u00a0b",
    "a\u2003b",
    "a\u3000b",
    "a\u2212b",
    "a\xc2\x85z",
};

START_TEST(what_is_no_module_name_has_a_fault)
{
    ck_assert_ptr_nonnull(hf_exports_module_fault(no_modules[_i]));
}
END_TEST

START_TEST(a_name_may_be_as_long_as_a_file_name)
{
    char name[257] = {0};
    memset(name, 'a', 255);
    ck_assert_ptr_null(hf_exports_module_fault(name));
    name[255] = 'a';
    ck_assert_ptr_nonnull(hf_exports_module_fault(name));

    /* The most expensive names to encode: few bytes for each code point, and code points far
     * apart. */
    memset(name, 0, sizeof name);
    for (size_t i = 0; i < 63; i++)
        snprintf(name + 4 * i, 5, "%s", i % 2 == 0 ? "\xf0\x90\x80\x80" : "\xf3\xa0\x87\xaf");
    hf_exports_add_module(&list, name);
}
END_TEST

/* ---- symbols and nodes ---------------------------------------------------------------------- */

static const char *const symbols[] = {"f",   "_Z3fooi", "a.b",       "$d",
                                      "x$y", "_",       "\u00e9lan", "global"};

START_TEST(a_symbol_is_exported_as_it_is)
{
    ck_assert_ptr_null(hf_exports_symbol_fault(symbols[_i]));
    hf_exports_add_symbol(&list, symbols[_i]);
    ck_assert_str_eq(list.entries[0].symbol, symbols[_i]);
}
END_TEST

static const char *const no_symbols[] = {
    "",    "*",   "f*",  "f?",   "[ab]", "f]",     "9f",    "a b",      "a;b", "a{",
    "a}",  "a:b", "a\"", "a@V1", "a\n",  "f(int)", "f\xff", "f\\",      "f/*", "f#",
    "a,b", "-f",  "!f",  "f\t",  "\x01", "f\x7f",  "f^",    "\xc2\x85",
};

START_TEST(what_is_no_symbol_has_a_fault)
{
    ck_assert_ptr_nonnull(hf_exports_symbol_fault(no_symbols[_i]));
}
END_TEST

START_TEST(a_wildcard_is_called_one)
{
    ck_assert_ptr_nonnull(strstr(hf_exports_symbol_fault("hf_*"), "wildcard"));
}
END_TEST

START_TEST(nodes_are_checked)
{
    static const char *const good[] = {"V", "_v", "MY_1.0", "a.b.c", "globals"};
    static const char *const bad[] = {"",   "1.0",    ".a",     "a-b",   "a b",
                                      "a{", "\u00e9", "global", "local", "extern"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        ck_assert_msg(hf_exports_node_fault(good[i]) == NULL, "'%s' refused", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(hf_exports_node_fault(bad[i]) != NULL, "'%s' accepted", bad[i]);
}
END_TEST

static void is_function(const char *symbol, enum hf_module_function function, const char *rest)
{
    const char *found = "";
    ck_assert_int_eq(hf_module_function_of(symbol, &found), function);
    ck_assert_str_eq(found, rest);
}

START_TEST(functions_of_modules_are_known)
{
    is_function("PyInit_x", HF_MODULE_FUNCTION_INIT, "_x");
    is_function("PyInitU_gfs105b", HF_MODULE_FUNCTION_INIT, "U_gfs105b");
    is_function("PyModExport_x", HF_MODULE_FUNCTION_EXPORT, "_x");
    is_function("PyModExportU_gfs105b", HF_MODULE_FUNCTION_EXPORT, "U_gfs105b");
    ck_assert_str_eq(hf_module_function_module("_x"), "x");
    ck_assert_str_eq(hf_module_function_module("U_gfs105b"), "gfs105b");
    static const char *const others[] = {
        "PyInit_",      "PyInitU_",      "PyInit",  "xPyInit_x",    "pyinit_x",
        "PyModExport_", "PyModExportU_", "PyMod_x", "PyModExportx", "PyModExportable_x",
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        is_function(others[i], HF_MODULE_FUNCTION_NONE, "");
}
END_TEST

/* ---- the script ----------------------------------------------------------------------------- */

START_TEST(a_script_keeps_the_order_and_each_symbol_once)
{
    hf_exports_add_module(&list, "z");
    hf_exports_add_symbol(&list, "b");
    hf_exports_add_symbol(&list, "PyInit_z");
    hf_exports_add_module(&list, "pkg.z");
    hf_exports_add_symbol(&list, "a");

    char *text = script_of(NULL);
    ck_assert_str_eq(text, "/* written by homefree exports; do not edit */\n"
                           "{\n"
                           "    global:\n"
                           "        PyModExport[_]z;\n"
                           "        PyInit[_]z;\n"
                           "        b;\n"
                           "        a;\n"
                           "    local:\n"
                           "        *;\n"
                           "};\n");
    free(text);

    text = script_of("MINE_1.0");
    ck_assert_ptr_nonnull(strstr(text, "*/\nMINE_1.0 {\n    global:\n"));
    free(text);
}
END_TEST

START_TEST(a_script_quotes_what_linkers_would_misread)
{
    hf_exports_add_symbol(&list, "local");
    hf_exports_add_symbol(&list, "\u00e9lan");
    char *text = script_of(NULL);
    ck_assert_ptr_nonnull(strstr(text, " \"local\";\n"));
    ck_assert_ptr_nonnull(strstr(text, " \"\u00e9lan\";\n"));
    free(text);
}
END_TEST

START_TEST(many_symbols_take_no_square_of_time)
{
    enum { MANY = 100000 };
    char symbol[32];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < MANY; i++) {
            snprintf(symbol, sizeof symbol, "PyInit_%d", i);
            hf_exports_add_symbol(&list, symbol);
        }
    ck_assert_uint_eq(list.count, MANY);
    ck_assert_str_eq(list.entries[MANY - 1].symbol, symbol);
}
END_TEST

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

int main(void)
{
    TCase *names = NEW_CASE("names", a_name_may_be_as_long_as_a_file_name, a_wildcard_is_called_one,
                            nodes_are_checked, functions_of_modules_are_known);
    tcase_add_checked_fixture(names, setup, teardown);
    tcase_add_loop_test(names, a_module_may_have_each_function_that_python_calls, 0,
                        COUNT(modules));
    tcase_add_loop_test(names, what_is_no_module_name_has_a_fault, 0, COUNT(no_modules));
    tcase_add_loop_test(names, a_symbol_is_exported_as_it_is, 0, COUNT(symbols));
    tcase_add_loop_test(names, what_is_no_symbol_has_a_fault, 0, COUNT(no_symbols));

    TCase *script =
        NEW_CASE("script", a_script_keeps_the_order_and_each_symbol_once,
                 a_script_quotes_what_linkers_would_misread, many_symbols_take_no_square_of_time);
    tcase_add_checked_fixture(script, setup, teardown);
    return RUN_CASES("exports", names, script);
}
