/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * manual.c - run by the build: copies a manual page to stdout and replaces the lines `.\"
 * @OPTIONS@`, `.\" @INSPECT@`, `.\" @DOCTOR@` and `.\" @REPORT@` with the contents of
 * alloc/base/options.def, loader/inspect/rules.def, loader/record/process_record.def and
 * alloc/diagnose/report_rules.def, so that pages and program agree.
 *
 * Usage: manual PAGE
 */
#include "alloc/base/options.h"
#include "loader/inspect/inspect.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const struct hf_rule_text inspect_rules[] = {
#define HF_RULE(id, name, severity, explanation, remedy) \
    {name, HF_SEVERITY_##severity, explanation, remedy},
#include "loader/inspect/rules.def"
#undef HF_RULE
};

static const struct hf_rule_text doctor_rules[] = {
#define HF_DOCTOR_RULE(id, name, severity, explanation, remedy) \
    {name, HF_SEVERITY_##severity, explanation, remedy},
#include "loader/record/process_record.def"
#undef HF_DOCTOR_RULE
};

/* The first row stands for no rule. */
static const struct hf_rule_text report_rules[] = {
#define HF_REPORT_RULE(id, name, severity, explanation, without, remedy) \
    {name, HF_SEVERITY_##severity, explanation, remedy},
#include "alloc/diagnose/report_rules.def"
};

static bool ends_sentence(const char *text)
{
    return text[0] == '.' && text[1] == ' ' && isupper((unsigned char)text[2]);
}

/* A line of text must not begin with a roff control character or contain roff's escape
 * character. Each sentence is a line, which tells roff where sentences end. */
static void print_text(const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", stdout);
    for (; *text != '\0'; text++)
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else if (ends_sentence(text)) {
            fputs(".\n", stdout);
            text++;
        } else
            putchar(*text);
    putchar('\n');
}

static void print_option(const struct hf_option_row *row)
{
    char preset[32];
    hf_option_preset(row, preset, sizeof preset);
    printf(".It Li %s : Ns Ar value\n", row->name);
    putchar(toupper((unsigned char)*row->help));
    print_text(row->help + 1);
    printf(".Pq %s; the default is Li %s\n", row->unit, preset);
}

#define COUNT(rules) (sizeof(rules) / sizeof((rules)[0]))
static const struct table {
    const char *mark;
    const struct hf_rule_text *rules; /* NULL: options */
    size_t count;
} tables[] = {
    {".\\\" @OPTIONS@\n", NULL, 0},
    {".\\\" @INSPECT@\n", inspect_rules, COUNT(inspect_rules)},
    {".\\\" @DOCTOR@\n", doctor_rules, COUNT(doctor_rules)},
    {".\\\" @REPORT@\n", report_rules + 1, COUNT(report_rules) - 1},
};

static void print_table(const struct table *table)
{
    static const char *const severities[] = {"note", "warning", "error"};
    const struct hf_option_row *row;
    for (size_t i = 0; table->rules == NULL && (row = hf_option_row(i)) != NULL; i++)
        print_option(row);
    for (size_t i = 0; i < table->count; i++) {
        printf(".It Li %s Pq %s\n", table->rules[i].name, severities[table->rules[i].severity]);
        print_text(table->rules[i].explanation);
        print_text(table->rules[i].remedy);
    }
}

int main(int count, char **arguments)
{
    char line[4096];
    FILE *page = count == 2 ? fopen(arguments[1], "r") : NULL;
    if (page == NULL) {
        fputs("usage: manual PAGE\n", stderr);
        return 2;
    }
    while (fgets(line, sizeof line, page) != NULL) {
        size_t table = 0;
        while (table < COUNT(tables) && strcmp(line, tables[table].mark) != 0)
            table++;
        if (table < COUNT(tables))
            print_table(&tables[table]);
        else
            fputs(line, stdout);
    }
    const int broken = ferror(page) != 0;
    fclose(page);
    return broken || fflush(stdout) != 0 ? 3 : 0;
}
