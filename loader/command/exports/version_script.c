/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See version_script.h for what may be called when. Owns nothing.
 */
#include "loader/command/exports/version_script.h"

#include "loader/command/exports/punycode.h"
#include "loader/command/text.h"
#include "loader/inspect/module_functions.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* ---- characters ----------------------------------------------------------------------------- */

/* Whether a byte is a letter. <ctype.h> would make that depend on the locale. */
static bool is_letter(unsigned char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_';
}

static bool is_digit(unsigned char byte)
{
    return byte >= '0' && byte <= '9';
}

/*
 * Code points that no identifier holds in any version of Unicode, as far as ranges can say so:
 * controls, spaces, signs, punctuation and private use. The holes are letters (U+00AA, U+00B5,
 * U+00B7, U+00BA, U+200C, U+200D, U+203F, U+2040, U+2054, U+3005 to U+3007).
 */
static bool never_in_identifier(uint32_t code_point)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0x0080, 0x00a9}, {0x00ab, 0x00b4},   {0x00b6, 0x00b6},    {0x00b8, 0x00b9},
        {0x00bb, 0x00bf}, {0x00d7, 0x00d7},   {0x00f7, 0x00f7},    {0x2000, 0x200b},
        {0x200e, 0x203e}, {0x2041, 0x2053},   {0x2055, 0x2070},    {0x2190, 0x2bff},
        {0x3000, 0x3004}, {0xd800, 0xf8ff},   {0xfdd0, 0xfdef},    {0xfeff, 0xfeff},
        {0xfff0, 0xffff}, {0xe0000, 0xe00ff}, {0xe01f0, 0x10ffff},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (code_point >= ranges[i].first && code_point <= ranges[i].last)
            return true;
    return false;
}

/* ---- names ---------------------------------------------------------------------------------- */

static const char *component_fault(const unsigned char *name, size_t length)
{
    if (length == 0)
        return "a component between its dots is empty; write it as 'import' would, for example "
               "package.module";
    if (length > HF_EXPORTS_LONGEST_COMPONENT)
        return "a component is longer than a file name can be (255 bytes); rename the module";
    if (is_digit(name[0]))
        return "a component begins with a digit; begin it with a letter or an underscore";
    size_t used = 0;
    for (size_t i = 0; i < length; i += used) {
        uint32_t code_point = 0;
        used = hf_text_decode(name + i, length - i, &code_point);
        if (used == 0)
            return "it is not UTF-8; write it in UTF-8";
        if (code_point < 0x80 && !is_letter(name[i]) && !is_digit(name[i]))
            return "use letters, digits and underscores, with dots between package and module, "
                   "and leave out directories and the file's suffix";
        if (never_in_identifier(code_point))
            return "it holds a space, sign or control character; use letters, digits and "
                   "underscores";
    }
    return NULL;
}

const char *hf_exports_module_fault(const char *name)
{
    if (name[0] == '\0')
        return "it is empty; give the name that 'import' takes";
    for (;;) {
        const size_t length = strcspn(name, ".");
        const char *fault = component_fault((const unsigned char *)name, length);
        if (fault != NULL)
            return fault;
        if (name[length] == '\0')
            return NULL;
        name += length + 1;
    }
}

const char *hf_exports_symbol_fault(const char *symbol)
{
    const size_t length = strlen(symbol);
    if (length == 0)
        return "it is empty; write one symbol a line";
    if (strpbrk(symbol, "*?[]") != NULL)
        return "it is a wildcard; write each symbol out, so that nothing is exported by accident";
    if (is_digit((unsigned char)symbol[0]))
        return "it begins with a digit; write it as nm prints it";
    size_t used = 0;
    for (size_t i = 0; i < length; i += used) {
        const unsigned char *at = (const unsigned char *)symbol + i;
        uint32_t code_point = 0;
        used = hf_text_decode(at, length - i, &code_point);
        if (used == 0)
            return "it is not UTF-8; write it as nm prints it";
        if (code_point == '@')
            return "it carries a version; write the bare symbol and name the node with --version";
        if (code_point < 0x80 && !is_letter(*at) && !is_digit(*at) && *at != '.' && *at != '$')
            return "it is not a linker symbol; write one symbol a line as nm prints it, C++ names "
                   "mangled";
        if (code_point >= 0x80 && code_point < 0xa0)
            return "it holds a control character; write it as nm prints it";
    }
    return NULL;
}

const char *hf_exports_node_fault(const char *node)
{
    static const char fault[] =
        "use letters, digits, underscores and dots, and begin with a letter "
        "or an underscore, for example MYMODULE_1.0";
    /* Linkers treat these three words before a brace as keywords, and their error messages do not
     * say so. */
    static const char *const keywords[] = {"global", "local", "extern"};

    if (!is_letter((unsigned char)node[0]))
        return fault;
    for (const char *at = node; *at != '\0'; at++)
        if (!is_letter((unsigned char)*at) && !is_digit((unsigned char)*at) && *at != '.')
            return fault;
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++)
        if (strcmp(node, keywords[i]) == 0)
            return "it is a keyword of version scripts; choose another, for example MYMODULE_1.0";
    return NULL;
}

/* ---- the list ------------------------------------------------------------------------------- */

void hf_exports_begin(struct hf_exports *list, struct hf_keep *keep)
{
    *list = (struct hf_exports){.keep = keep};
    hf_keep_table_begin(&list->symbols, keep, 0);
}

static void add(struct hf_exports *list, const char *symbol, bool optional)
{
    if (hf_keep_table_find(&list->symbols, symbol) != NULL)
        return;
    char *copy = hf_keep_text(list->keep, symbol);
    hf_keep_table_add(&list->symbols, copy);
    HF_KEEP_ADD(list->keep, list->entries, list->count) = (struct hf_exported){copy, optional};
}

void hf_exports_module_rest(const char *name, char rest[HF_EXPORTS_REST_SIZE])
{
    const char *dot = strrchr(name, '.');
    const char *last = dot == NULL ? name : dot + 1;

    bool ascii = true;
    for (const char *at = last; *at != '\0'; at++)
        ascii = ascii && (unsigned char)*at < 0x80;
    if (ascii) {
        snprintf(rest, HF_EXPORTS_REST_SIZE, "_%s", last);
        return;
    }
    uint32_t points[HF_EXPORTS_LONGEST_COMPONENT];
    size_t count = 0;
    const size_t length = strlen(last);
    for (size_t i = 0; i < length;)
        i += hf_text_decode((const unsigned char *)last + i, length - i, &points[count++]);
    char encoded[HF_PUNYCODE_SIZE(HF_EXPORTS_LONGEST_COMPONENT)];
    hf_punycode_encode(points, count, encoded);
    for (char *at = encoded; *at != '\0'; at++)
        if (*at == '-')
            *at = '_';
    snprintf(rest, HF_EXPORTS_REST_SIZE, "U_%s", encoded);
}

void hf_exports_add_module(struct hf_exports *list, const char *name)
{
    char rest[HF_EXPORTS_REST_SIZE], symbol[sizeof rest + 32];
    hf_exports_module_rest(name, rest);
    for (int i = 0; i < HF_MODULE_FUNCTION_COUNT; i++) {
        snprintf(symbol, sizeof symbol, "%s%s", hf_module_functions[i].name, rest);
        add(list, symbol, true);
    }
}

void hf_exports_add_symbol(struct hf_exports *list, const char *symbol)
{
    add(list, symbol, false);
}

/* ---- the script ----------------------------------------------------------------------------- */

/* Linkers take a quoted symbol literally. Unquoted, they accept neither UTF-8 nor these words. */
static bool needs_quotes(const char *symbol)
{
    for (const char *at = symbol; *at != '\0'; at++)
        if ((unsigned char)*at >= 0x80)
            return true;
    return strcmp(symbol, "global") == 0 || strcmp(symbol, "local") == 0 ||
           strcmp(symbol, "extern") == 0;
}

/*
 * Some linkers warn of a name that nothing defines, or refuse it, but none misses a match of a
 * pattern. So an optional symbol is written as the pattern that matches it alone.
 */
static void write_symbol(FILE *out, const struct hf_exported *entry)
{
    const char *quote = needs_quotes(entry->symbol) ? "\"" : "";
    if (entry->optional) {
        const int length = (int)strcspn(entry->symbol, "_");
        fprintf(out, "        %.*s[_]%s;\n", length, entry->symbol, entry->symbol + length + 1);
    } else {
        fprintf(out, "        %s%s%s;\n", quote, entry->symbol, quote);
    }
}

void hf_exports_script(const struct hf_exports *list, const char *node, FILE *out)
{
    fputs("/* written by homefree exports; do not edit */\n", out);
    if (node != NULL)
        fprintf(out, "%s ", node);
    fputs("{\n    global:\n", out);
    for (size_t i = 0; i < list->count; i++)
        write_symbol(out, &list->entries[i]);
    fputs("    local:\n        *;\n};\n", out);
}
