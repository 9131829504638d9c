/*
 * inspect.c - `homefree inspect`: command line and output around the analysis of loader/inspect.h.
 *
 * Owns: the options, the table and the JSON document, which is written only when all of it is
 * known. Every file is inspected, also after one that cannot be.
 */
#include "inspect.h"
#include "command.h"
#include "json.h"
#include "rules.h"
#include "text.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char who[] = "homefree inspect";

enum { FORMAT = 1 }; /* of the JSON document; see json.h */

static const char help[] =
    "Usage: homefree inspect [--json] FILE...\n"
    "       homefree inspect --rules [--json]\n"
    "\n"
    "Tells what shared objects would do to the process that loads them: allocators inside them,\n"
    "allocator names they export, exports beyond PyInit_, static TLS, the homefree they need,\n"
    "libraries they load for nothing. Nothing of the files is run.\n"
    "\n"
    "  --json      print a JSON document in place of the table\n"
    "  --rules     list what can be found, why it matters and what to do\n"
    "  -h, --help  print this help\n"
    "\n"
    "Exit status: 0 clean (notes alone are clean), 1 warnings or errors found, 2 wrong usage,\n"
    "3 a file could not be inspected.\n";

struct request {
    bool json, rules, help;
    char **files;
    size_t count;
};

/* ---- the command line ----------------------------------------------------------------------- */

/* Result: HF_EXIT_CLEAN, or HF_EXIT_USAGE after a complaint. */
static int read_arguments(struct request *request, int count, char **arguments)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'},
        {"rules", no_argument, NULL, 'r'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    optind = 0; /* main.c handed over a part of argv: getopt must begin anew */
    opterr = 0;
    for (;;) {
        const int option = getopt_long(count, arguments, ":h", options, NULL);
        if (option == -1)
            break;
        switch (option) {
        case 'j':
            request->json = true;
            break;
        case 'r':
            request->rules = true;
            break;
        case 'h':
            request->help = true;
            return HF_EXIT_CLEAN;
        default:
            return hf_command_bad_option(who, option, arguments);
        }
    }
    request->files = arguments + optind;
    request->count = (size_t)(count - optind);
    if (request->rules && request->count > 0) {
        hf_command_complain(who, "--rules takes no file");
        return HF_EXIT_USAGE;
    }
    if (!request->rules && request->count == 0) {
        hf_command_complain(who, "give at least one file; 'homefree inspect --help' tells how");
        return HF_EXIT_USAGE;
    }
    return HF_EXIT_CLEAN;
}

/* ---- what all files together gave -------------------------------------------------------------
 */

struct totals {
    size_t files;
    struct hf_rule_totals found;
    bool rules[HF_RULE_COUNT];
};

static void complain_about(const char *path, int result, const char *why)
{
    /* The reader says what is wrong with a file; what the system says is better known. */
    if (result == -ENOEXEC || result == -EISDIR || result == -ENOMEM)
        hf_command_complain(who, "cannot inspect '%s': %s", path, why);
    else
        hf_command_complain(who, "cannot inspect '%s': %s", path, strerror(-result));
}

/* ---- the table ------------------------------------------------------------------------------ */

static const char *colour_of(enum hf_severity severity, bool coloured)
{
    static const char *const colours[] = {"\033[36m", "\033[33m", "\033[31m"};
    return coloured ? colours[severity] : "";
}

static void print_facts(FILE *out, const struct hf_inspection *inspection)
{
    static const char *const kinds[] = {"shared object", "program", "other file"};
    fputs("  ", out);
    if (inspection->module != NULL) {
        fputs("Python module ", out);
        hf_text_print(out, inspection->module);
    } else {
        fputs(kinds[inspection->kind], out);
    }
    fprintf(out, ", %s", inspection->machine);
    if (inspection->homefree_itself)
        fputs(", homefree itself", out);
    else if (inspection->homefree_linked)
        fprintf(out, ", linked with homefree%s", inspection->homefree_needed != NULL ? " (" : "");
    else if (inspection->kind != HF_KIND_OTHER)
        fputs(", not linked with homefree", out);
    if (!inspection->homefree_itself && inspection->homefree_needed != NULL) {
        hf_text_print(out, inspection->homefree_needed);
        fputc(')', out);
    }
    fputc('\n', out);
}

/* Mangled names can fill a screen each; the document has them whole. */
static void print_name(FILE *out, const char *name)
{
    enum { WIDEST = 60 };
    if (strlen(name) <= WIDEST) {
        hf_text_print(out, name);
        return;
    }
    char start[WIDEST - 2];
    memcpy(start, name, sizeof start - 1);
    start[sizeof start - 1] = '\0';
    hf_text_print(out, start);
    fputs("...", out);
}

static void print_finding(FILE *out, const struct hf_inspection_finding *finding, int widest,
                          bool coloured)
{
    const struct hf_rule_text *rule = &hf_rules[finding->rule];
    fprintf(out, "  %s%-7s%s  %-*s  ", colour_of(rule->severity, coloured),
            hf_severity_name(rule->severity), coloured ? "\033[m" : "", widest, rule->name);
    hf_text_print(out, finding->message);
    /* An allocator's finding has its evidence in the sentence. */
    for (size_t i = 0; finding->rule != HF_RULE_ALLOCATOR && i < finding->names_count; i++) {
        fputs(i == 0 ? ": " : ", ", out);
        print_name(out, finding->names[i]);
    }
    if (finding->count > finding->names_count)
        fputs(", ...", out);
    fputc('\n', out);
}

static void print_file(FILE *out, const struct hf_inspection *inspection, bool coloured)
{
    int widest = 0;
    for (size_t i = 0; i < inspection->findings_count; i++) {
        const int width = (int)strlen(hf_rules[inspection->findings[i].rule].name);
        widest = width > widest ? width : widest;
    }
    if (coloured)
        fputs("\033[1m", out);
    hf_text_print(out, inspection->path);
    fputs(coloured ? "\033[m\n" : "\n", out);
    print_facts(out, inspection);
    if (inspection->findings_count == 0)
        fputs("  clean\n", out);
    for (int severity = HF_SEVERITY_ERROR; severity >= HF_SEVERITY_NOTE; severity--)
        for (size_t i = 0; i < inspection->findings_count; i++)
            if (hf_rules[inspection->findings[i].rule].severity == (enum hf_severity)severity)
                print_finding(out, &inspection->findings[i], widest, coloured);
    fputc('\n', out);
}

static void print_remedies(FILE *out, const struct totals *totals)
{
    bool any = false;
    for (size_t i = 0; i < HF_RULE_COUNT; i++) {
        if (!totals->rules[i])
            continue;
        if (!any)
            fputs("What to do:\n", out);
        any = true;
        fprintf(out, "  %s: %s\n", hf_rules[i].name, hf_rules[i].remedy);
    }
    if (any)
        fputs("'homefree inspect --rules' says why each matters.\n", out);
}

/* ---- the JSON document ---------------------------------------------------------------------- */

static void write_libraries(struct hf_json *json, const struct hf_inspection *inspection)
{
    static const char *const states[] = {"used", "unused", "not found"};
    hf_json_array(json, "libraries");
    for (size_t i = 0; i < inspection->libraries_count; i++) {
        const struct hf_inspection_library *library = &inspection->libraries[i];
        hf_json_object(json, NULL);
        hf_json_string(json, "name", library->name);
        hf_json_string(json, "state", states[library->state]);
        hf_json_string(json, "path", library->path);
        hf_json_close(json);
    }
    hf_json_close(json);
}

static void write_allocators(struct hf_json *json, const struct hf_inspection *inspection)
{
    hf_json_array(json, "allocators");
    for (size_t i = 0; i < inspection->allocators_count; i++) {
        const struct hf_inspection_allocator *allocator = &inspection->allocators[i];
        hf_json_object(json, NULL);
        hf_json_string(json, "name", hf_allocator_name(allocator->allocator));
        hf_json_string(json, "by", allocator->by_string ? "string" : "symbol");
        hf_json_string(json, "evidence", allocator->evidence);
        hf_json_string(json, "prefix", allocator->by_string ? NULL : allocator->prefix);
        hf_json_boolean(json, "exported", allocator->exported);
        hf_json_close(json);
    }
    hf_json_close(json);
}

static void write_findings(struct hf_json *json, const struct hf_inspection *inspection)
{
    hf_json_array(json, "findings");
    for (size_t i = 0; i < inspection->findings_count; i++) {
        const struct hf_inspection_finding *finding = &inspection->findings[i];
        hf_json_object(json, NULL);
        hf_json_string(json, "rule", hf_rules[finding->rule].name);
        hf_json_string(json, "severity", hf_severity_name(hf_rules[finding->rule].severity));
        hf_json_string(json, "message", finding->message);
        hf_json_string(json, "remedy", hf_rules[finding->rule].remedy);
        hf_json_unsigned(json, "count", finding->count);
        hf_json_array(json, "names");
        for (size_t n = 0; n < finding->names_count; n++)
            hf_json_string(json, NULL, finding->names[n]);
        hf_json_close(json);
        hf_json_close(json);
    }
    hf_json_close(json);
}

static void write_file(struct hf_json *json, const struct hf_inspection *inspection)
{
    static const char *const kinds[] = {"shared object", "program", "other"};
    hf_json_object(json, NULL);
    hf_json_string(json, "path", inspection->path);
    hf_json_string(json, "error", NULL);
    hf_json_string(json, "kind", kinds[inspection->kind]);
    hf_json_string(json, "machine", inspection->machine);
    hf_json_string(json, "soname", inspection->soname);
    hf_json_string(json, "module", inspection->module);
    hf_json_object(json, "homefree");
    hf_json_boolean(json, "itself", inspection->homefree_itself);
    hf_json_boolean(json, "linked", inspection->homefree_linked);
    hf_json_string(json, "needed", inspection->homefree_needed);
    hf_json_close(json);
    hf_json_object(json, "tls");
    hf_json_unsigned(json, "bytes", inspection->tls_size);
    hf_json_boolean(json, "static", inspection->tls_static);
    hf_json_close(json);
    hf_json_unsigned(json, "imports", inspection->imports);
    hf_json_unsigned(json, "exports", inspection->exports);
    write_libraries(json, inspection);
    write_allocators(json, inspection);
    write_findings(json, inspection);
    hf_json_close(json);
}

static void write_failure(struct hf_json *json, const char *path, int result, const char *why)
{
    hf_json_object(json, NULL);
    hf_json_string(json, "path", path);
    hf_json_string(json, "error",
                   result == -ENOEXEC || result == -EISDIR ? why : strerror(-result));
    hf_json_close(json);
}

static void write_totals(struct hf_json *json, const struct totals *totals)
{
    hf_json_object(json, "summary");
    hf_json_unsigned(json, "files", totals->files);
    hf_rules_totals(json, &totals->found);
    hf_json_close(json);
}

/* ---- the command ---------------------------------------------------------------------------- */

static void inspect_file(const struct request *request, const char *path, FILE *out,
                         struct hf_json *json, struct totals *totals)
{
    struct hf_inspection inspection;
    const int result = hf_inspect(path, &inspection);
    totals->files++;
    if (result != 0) {
        complain_about(path, result, inspection.why);
        totals->found.failed++;
        if (request->json)
            write_failure(json, path, result, inspection.why);
        return;
    }
    for (size_t i = 0; i < inspection.findings_count; i++) {
        totals->found.severities[hf_rules[inspection.findings[i].rule].severity]++;
        totals->rules[inspection.findings[i].rule] = true;
    }
    if (request->json)
        write_file(json, &inspection);
    else
        print_file(out, &inspection, hf_text_coloured());
    hf_inspection_free(&inspection);
}

static void inspect_files(const struct request *request, FILE *out, struct totals *totals)
{
    struct hf_json json;
    if (request->json) {
        hf_json_begin(&json, out, "inspect", FORMAT);
        hf_json_array(&json, "files");
    }
    for (size_t i = 0; i < request->count; i++)
        inspect_file(request, request->files[i], out, &json, totals);
    if (request->json) {
        hf_json_close(&json);
        write_totals(&json, totals);
        hf_json_finish(&json);
    } else {
        print_remedies(out, totals);
    }
}

static int run(const struct request *request)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        return hf_command_out_of_memory(who);
    struct totals totals = {.files = 0};
    if (request->rules)
        hf_rules_list(out, request->json, "inspect rules", FORMAT, hf_rules, HF_RULE_COUNT);
    else
        inspect_files(request, out, &totals);
    const bool whole = ferror(out) == 0;
    int result = fclose(out) == 0 && whole ? HF_EXIT_CLEAN : hf_command_out_of_memory(who);
    if (result == HF_EXIT_CLEAN)
        result = hf_command_print(who, text, length);
    free(text);
    if (result != HF_EXIT_CLEAN)
        return result;
    return hf_rules_status(&totals.found);
}

int hf_command_inspect(int count, char **arguments)
{
    struct request request = {.json = false};
    const int result = read_arguments(&request, count, arguments);
    if (result != HF_EXIT_CLEAN)
        return result;
    if (request.help)
        return hf_command_print(who, help, sizeof help - 1);
    return run(&request);
}
