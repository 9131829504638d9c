/*
 * `homefree report`: the command line, and what is written where.
 *
 * Owns: the options, and the report while it is shown. Files and stdout are written only when their
 * contents are complete. One thread.
 */
#include "loader/command/arguments.h"
#include "loader/command/live/live_process.h"
#include "loader/command/report/place_names.h"
#include "loader/command/report/report_document.h"
#include "loader/command/report/report_exports.h"
#include "loader/command/report/report_live.h"
#include "loader/command/report/report_paths.h"
#include "loader/command/report/report_text.h"

#include <string.h>

static const char who[] = "homefree report";

struct request {
    bool json, rules;
    const char *html, *folded, *compare, *pid;
    struct hf_operand_list paths;
};

static const struct hf_argument arguments_table[] = {
    HF_JSON_ARGUMENT("print a JSON document instead of text"),
    HF_VALUE_ARGUMENT("html", html, "FILE", "write a page for a browser, which needs no network"),
    HF_VALUE_ARGUMENT("folded", folded, "FILE",
                      "write folded stacks, from which flame graphs are drawn"),
    HF_VALUE_ARGUMENT("compare", compare, "OLD",
                      "show what changed since an older report: a file, a folder, or\n"
                      "what --json printed"),
    HF_VALUE_ARGUMENT("pid", pid, "PID",
                      "show what a running process has recorded until now; it is\n"
                      "neither stopped nor asked"),
    HF_RULES_ARGUMENT,
    {.name = NULL},
};

static const struct hf_command command = {
    .who = who,
    .usage =
        "homefree report [--json] [--html FILE] [--folded FILE] [--compare OLD] PATH...\n"
        "       homefree report [--json] [--html FILE] [--folded FILE] [--compare OLD] --pid PID\n"
        "       homefree report --rules [--json]\n",
    .about = "Shows what 'homefree run --diagnose' recorded: which memory was allocated by one\n"
             "object and freed by another, what was wrong with it, and what to do. A PATH is a\n"
             "process's file or a folder of them; several are shown as one report.\n",
    .notes = "With FILE -, the result goes to stdout in place of the text.\n"
             "\n"
             "Exit status: 0 clean (also with notes), 1 warnings or errors, 2 wrong usage, 3 no\n"
             "report could be read, or a result could not be written.\n",
    .arguments = arguments_table,
    .operands = HF_OPERANDS_ANYWHERE,
};

/* Writes a report in one of its forms. `comparison` may be NULL. */
typedef void writer(FILE *out, const struct hf_merged *merged,
                    const struct hf_comparison *comparison);

struct result {
    const struct hf_merged *merged;
    const struct hf_comparison *comparison;
    writer *write;
};

static bool compose(FILE *out, void *context)
{
    const struct result *result = context;
    result->write(out, result->merged, result->comparison);
    return true;
}

static int write_as(writer *write, const char *path, struct result *result)
{
    result->write = write;
    return hf_command_compose(who, path, compose, result);
}

static void write_folded(FILE *out, const struct hf_merged *merged,
                         const struct hf_comparison *comparison)
{
    (void)comparison;
    hf_report_folded_write(out, merged);
}

static bool is_stdout(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0;
}

static int write_results(const struct request *request, struct result *result)
{
    int status = HF_EXIT_CLEAN;
    if (request->html != NULL)
        status = write_as(hf_report_html_write, request->html, result);
    if (status == HF_EXIT_CLEAN && request->folded != NULL)
        status = write_as(write_folded, request->folded, result);
    if (status != HF_EXIT_CLEAN)
        return status;
    if (request->json)
        return write_as(hf_report_document_write, "-", result);
    if (is_stdout(request->html) || is_stdout(request->folded))
        return HF_EXIT_CLEAN;
    return write_as(hf_report_text_print, "-", result);
}

/* Shows what has been read. */
static int show(const struct request *request, struct hf_merged *merged)
{
    struct hf_comparison comparison;
    hf_place_names_find(merged);
    struct result result = {.merged = merged};
    if (request->compare != NULL) {
        if (!hf_comparison_make(&comparison, merged, request->compare))
            return HF_EXIT_FAILED;
        result.comparison = &comparison;
    }
    const int status = write_results(request, &result);
    if (status != HF_EXIT_CLEAN)
        return status;
    const struct hf_rule_totals totals = hf_merged_totals(merged);
    return hf_rules_status(&totals);
}

static int report(const struct request *request, struct hf_keep *keep)
{
    struct hf_merged merged;
    hf_merged_begin(&merged, keep);
    if (request->pid == NULL)
        return hf_report_read(&merged, request->paths.values, request->paths.count)
                   ? show(request, &merged)
                   : HF_EXIT_FAILED;
    struct hf_live_process process;
    int status = hf_live_open(who, request->pid, &process);
    if (status != HF_EXIT_NONE)
        return status;
    status = hf_report_read_live(who, &merged, &process);
    if (status == HF_EXIT_NONE)
        status = show(request, &merged);
    hf_live_close(&process);
    return status;
}

int hf_command_report(int count, char **arguments)
{
    struct request request = {.json = false};
    const int result = hf_command_read(&command, &request, count, arguments, &request.paths);
    if (result != HF_EXIT_NONE)
        return result;
    if (request.rules && (request.paths.count > 0 || request.pid != NULL || request.html != NULL ||
                          request.folded != NULL || request.compare != NULL))
        return hf_command_wrong(who, "--rules takes no path and no option but --json");
    if (request.rules)
        return hf_rules_list(who, &hf_report_rules, request.json);
    if (request.pid != NULL && request.paths.count > 0)
        return hf_command_wrong(who, "--pid shows one process and takes no path");
    if (request.pid == NULL && request.paths.count == 0)
        return hf_command_wrong(who, "give at least one file or folder");
    if (request.json + is_stdout(request.html) + is_stdout(request.folded) > 1)
        return hf_command_wrong(who, "only one result can go to stdout");
    struct hf_keep keep = {.last = NULL};
    const int status = report(&request, &keep);
    hf_keep_release(&keep);
    return status;
}
