/*
 * manual.c - run by the build: copies a manual page to stdout and replaces the lines `.\"
 * @OPTIONS@` and `.\" @DOCTOR@` with the contents of alloc/base/options.def and
 * loader/record/process_record.def, so that pages and program agree.
 *
 * Usage: manual PAGE
 */
#include "alloc/base/options.h"
#include "loader/command/doctor/doctor_record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct hf_rule_text rules[] = {
#define HF_DOCTOR_RULE(id, name, severity, explanation, remedy) \
    {name, HF_SEVERITY_##severity, explanation, remedy},
#include "loader/record/process_record.def"
#undef HF_DOCTOR_RULE
};

/* A line of text must not begin with a roff control character or contain roff's escape
 * character. */
static void print_text(const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", stdout);
    for (; *text != '\0'; text++)
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else
            putchar(*text);
    putchar('\n');
}

static void print_option(const struct hf_option_row *row)
{
    char preset[32];
    hf_option_preset(row, preset, sizeof preset);
    printf(".It Li %s : Ns Ar value\n", row->name);
    printf("%c",
           (char)(*row->help >= 'a' && *row->help <= 'z' ? *row->help - 'a' + 'A' : *row->help));
    print_text(row->help + 1);
    printf(".Pq %s; the default is Li %s\n", row->unit, preset);
}

static void print_options(void)
{
    const struct hf_option_row *row;
    for (size_t i = 0; (row = hf_option_row(i)) != NULL; i++)
        print_option(row);
}

static void print_rules(void)
{
    static const char *const severities[] = {"note", "warning", "error"};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        printf(".It Li %s Pq %s\n", rules[i].name, severities[rules[i].severity]);
        print_text(rules[i].explanation);
        print_text(rules[i].remedy);
    }
}

int main(int count, char **arguments)
{
    static const struct {
        const char *mark;
        void (*print)(void);
    } tables[] = {{".\\\" @OPTIONS@\n", print_options}, {".\\\" @DOCTOR@\n", print_rules}};
    char line[4096];
    FILE *page = count == 2 ? fopen(arguments[1], "r") : NULL;
    if (page == NULL) {
        fputs("usage: manual PAGE\n", stderr);
        return 2;
    }
    while (fgets(line, sizeof line, page) != NULL) {
        size_t table = 0;
        while (table < 2 && strcmp(line, tables[table].mark) != 0)
            table++;
        if (table < 2)
            tables[table].print();
        else
            fputs(line, stdout);
    }
    const int broken = ferror(page) != 0;
    fclose(page);
    return broken || fflush(stdout) != 0 ? 3 : 0;
}
