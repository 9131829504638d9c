/*
 * `homefree inspect`: command line and output of the analysis in loader/inspect/inspect.h.
 *
 * Owns: the options, the table and the JSON document, which is written only when it is complete. A
 * file that cannot be inspected does not stop the others. One thread.
 */
#include "loader/command/arguments.h"
#include "loader/command/json.h"
#include "loader/command/rules.h"
#include "loader/command/text.h"
#include "loader/inspect/inspect.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char who[] = "homefree inspect";

_Static_assert(HF_RULE_COUNT <= HF_RULES_MAX, "hf_rule_totals has a flag for each rule");
static const struct hf_rule_table table = {"inspect", 1, hf_rules, HF_RULE_COUNT};

struct request {
    bool json, rules;
    struct hf_operand_list files;
};

static const struct hf_argument arguments_table[] = {
    HF_JSON_ARGUMENT("print a JSON document instead of the table"),
    HF_RULES_ARGUMENT,
    {.name = NULL},
};

static const struct hf_command command = {
    .who = who,
    .usage = "homefree inspect [--json] FILE...\n"
             "       homefree inspect --rules [--json]\n",
    .about =
        "Shows what shared objects would do to the process that loads them: the allocators in\n"
        "them, the allocator names they export, exports beyond PyInit_, static TLS, the version\n"
        "of homefree they need, and libraries they need and do not use. Runs no code of the\n"
        "files.\n",
    .notes =
        "Exit status: 0 clean (also with notes), 1 warnings or errors, 2 wrong usage, 3 a file\n"
        "could not be inspected.\n",
    .arguments = arguments_table,
    .operands = HF_OPERANDS_ANYWHERE,
};

struct totals {
    size_t files;
    struct hf_rule_totals found;
};

static void complain_about(const char *path, int result, const char *why)
{
    /* The reader explains what is wrong with a file's contents, the system why it cannot be
     * read. */
    if (result == -ENOEXEC || result == -EISDIR || result == -ENOMEM)
        hf_command_complain(who, "cannot inspect '%s': %s", path, why);
    else
        hf_command_complain(who, "cannot inspect '%s': %s", path, strerror(-result));
}

/* ---- the table ------------------------------------------------------------------------------ */

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

static struct hf_finding finding_at(const void *context, size_t index)
{
    const struct hf_inspection *inspection = context;
    const struct hf_inspection_finding *finding = &inspection->findings[index];
    return (struct hf_finding){
        .rule = finding->rule,
        .message = finding->message,
        .names = finding->names,
        .names_count = finding->names_count,
        .count = finding->count,
        .in_message = finding->rule == HF_RULE_ALLOCATOR,
    };
}

static struct hf_findings findings_of(const struct hf_inspection *inspection)
{
    return (struct hf_findings){
        .table = &table,
        .count = inspection->findings_count,
        .get = finding_at,
        .context = inspection,
        .name_max = 60,
    };
}

static void print_file(FILE *out, const struct hf_inspection *inspection, bool coloured)
{
    const struct hf_findings findings = findings_of(inspection);
    if (coloured)
        fputs("\033[1m", out);
    hf_text_print(out, inspection->path);
    fputs(coloured ? "\033[m\n" : "\n", out);
    print_facts(out, inspection);
    if (findings.count == 0)
        fputs("  clean\n", out);
    hf_findings_print(out, &findings, coloured);
    fputc('\n', out);
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

static void write_file(struct hf_json *json, const struct hf_inspection *inspection)
{
    static const char *const kinds[] = {"shared object", "program", "other"};
    const struct hf_findings findings = findings_of(inspection);
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
    hf_findings_write(json, &findings);
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

struct report {
    const struct request *request;
    struct totals totals;
};

static void inspect_file(struct report *report, const char *path, FILE *out, struct hf_json *json)
{
    struct totals *totals = &report->totals;
    const bool as_json = report->request->json;
    struct hf_inspection inspection;
    const int result = hf_inspect(path, &inspection);
    totals->files++;
    if (result != 0) {
        complain_about(path, result, inspection.why);
        totals->found.failed++;
        if (as_json)
            write_failure(json, path, result, inspection.why);
        return;
    }
    const struct hf_findings findings = findings_of(&inspection);
    hf_findings_add(&totals->found, &findings);
    if (as_json)
        write_file(json, &inspection);
    else
        print_file(out, &inspection, hf_text_coloured());
    hf_inspection_free(&inspection);
}

static bool compose(FILE *out, void *context)
{
    struct report *report = context;
    const struct hf_operand_list *files = &report->request->files;
    const bool as_json = report->request->json;
    struct hf_json json;
    if (as_json) {
        hf_json_begin(&json, out, table.command, table.format);
        hf_json_array(&json, "files");
    }
    for (size_t i = 0; i < files->count; i++)
        inspect_file(report, files->values[i], out, &json);
    if (as_json) {
        hf_json_close(&json);
        write_totals(&json, &report->totals);
        hf_json_finish(&json);
    } else {
        hf_findings_remedies(out, &table, &report->totals.found);
    }
    return true;
}

int hf_command_inspect(int count, char **arguments)
{
    struct request request = {.json = false};
    int result = hf_command_read(&command, &request, count, arguments, &request.files);
    if (result != HF_EXIT_NONE)
        return result;
    if (request.rules && request.files.count > 0)
        return hf_command_wrong(who, "--rules takes no file");
    if (request.rules)
        return hf_rules_list(who, &table, request.json);
    if (request.files.count == 0)
        return hf_command_wrong(who, "give at least one file");
    struct report report = {.request = &request};
    result = hf_command_compose(who, "-", compose, &report);
    return result != HF_EXIT_CLEAN ? result : hf_rules_status(&report.totals.found);
}
