/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `homefree report`: the command line, what programs read, and what Python makes of a report for
 * people (python/homefree/command/report.py).
 *
 * Owns: the options, and the report while it is shown. Files and stdout are written only when their
 * contents are complete. One thread.
 */
#include "loader/command/arguments.h"
#include "loader/command/live/live_process.h"
#include "loader/command/program/python.h"
#include "loader/command/report/place_names.h"
#include "loader/command/report/report_document.h"
#include "loader/command/report/report_folded.h"
#include "loader/command/report/report_live.h"
#include "loader/command/report/report_paths.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
                      "show what changed since an older report: a file, a directory, or\n"
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
             "process's file or a directory of them; several are shown as one report.\n",
    .notes = "With FILE -, the result goes to stdout in place of the text.\n"
             "\n"
             "Exit status: 0 clean (also with notes), 1 warnings or errors, 2 wrong usage, 3 no\n"
             "report could be read, or a result could not be written.\n",
    .arguments = arguments_table,
    .operands = HF_OPERANDS_ANYWHERE,
};

/* ---- what is written here: documents and folded stacks --------------------------------------- */

struct result {
    const struct hf_merged *merged;
    const struct hf_document_form *form;
};

static bool compose_document(FILE *out, void *context)
{
    const struct result *result = context;
    hf_report_document_write(out, result->merged, result->form);
    return true;
}

static bool compose_folded(FILE *out, void *context)
{
    hf_report_folded_write(out, ((const struct result *)context)->merged);
    return true;
}

static bool is_stdout(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0;
}

/* ---- what Python makes of documents ---- */

/* Findings that the text has. */
enum { TEXT_FINDINGS = 100 };

static const struct hf_document_form for_text = {
    .compact = true,
    .findings = TEXT_FINDINGS,
};
static const struct hf_document_form for_page = {
    .compact = true,
    .timeline = true,
    .findings = SIZE_MAX,
};
static const struct hf_document_form for_compare = {
    .compact = true,
    .brief = true,
    .findings = SIZE_MAX,
};

static int add_document(struct hf_words *words, const char *name, const struct hf_merged *merged,
                        const struct hf_document_form *form)
{
    int memory;
    struct result result = {merged, form};
    const int status = hf_python_document(who, compose_document, &result, &memory);
    if (status == HF_EXIT_CLEAN)
        hf_words_add(words, name, hf_keep_format(words->keep, "%d", memory));
    return status;
}

/* Whether the path of an older report holds records, rather than a document. */
static bool holds_records(const char *path)
{
    struct stat status;
    char magic[sizeof HF_REPORT_MAGIC - 1] = "";
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode))
        return true;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return true;
    const ssize_t got = read(descriptor, magic, sizeof magic);
    close(descriptor);
    return got == sizeof magic && memcmp(magic, HF_REPORT_MAGIC, sizeof magic) == 0;
}

/* What is compared: two documents, but an older one that is a document is read there. */
static int add_compared(struct hf_words *words, const struct hf_merged *merged, const char *path)
{
    int status = add_document(words, "new", merged, &for_compare);
    hf_words_add(words, "compare", path);
    if (status != HF_EXIT_CLEAN || !holds_records(path))
        return status;
    struct hf_merged old;
    char *paths[] = {hf_keep_text(words->keep, path)};
    hf_merged_begin(&old, words->keep);
    if (!hf_report_read(&old, paths, 1))
        return HF_EXIT_FAILED;
    hf_place_names_find(&old);
    return add_document(words, "old", &old, &for_compare);
}

/* Becomes Python. Returns HF_EXIT_FAILED if that fails. */
static int become_python(const struct request *request, const struct hf_merged *merged,
                         bool with_text, int status)
{
    struct hf_words words = {.keep = merged->keep};
    int result = HF_EXIT_CLEAN;
    hf_words_add(&words, "status", status == HF_EXIT_FINDINGS ? "1" : "0");
    hf_words_add(&words, "html", request->html);
    if (request->compare != NULL)
        result = add_compared(&words, merged, request->compare);
    if (result == HF_EXIT_CLEAN && request->html != NULL)
        result = add_document(&words, "page", merged, &for_page);
    if (result == HF_EXIT_CLEAN && request->json && request->compare != NULL)
        result = add_document(&words, "json", merged, &hf_document_whole);
    if (result == HF_EXIT_CLEAN && with_text)
        result = add_document(&words, "text", merged, &for_text);
    return result == HF_EXIT_CLEAN
               ? hf_python_become(who, "report", &words, "use --json, which needs no Python")
               : result;
}

/* Shows what has been read. */
static int show(const struct request *request, struct hf_merged *merged)
{
    hf_place_names_find(merged);
    const struct hf_rule_totals totals = hf_merged_totals(merged);
    const int status = hf_rules_status(&totals);
    const bool with_text =
        !request->json && !is_stdout(request->html) && !is_stdout(request->folded);
    struct result whole = {merged, &hf_document_whole};
    int result = HF_EXIT_CLEAN;
    if (request->folded != NULL)
        result = hf_command_compose(who, request->folded, compose_folded, &whole);
    if (result == HF_EXIT_CLEAN && request->json && request->compare == NULL)
        result = hf_command_compose(who, "-", compose_document, &whole);
    if (result != HF_EXIT_CLEAN)
        return result;
    if (with_text || request->html != NULL || request->compare != NULL)
        return become_python(request, merged, with_text, status);
    return status;
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
        return hf_command_wrong(who, "give at least one file or directory");
    if (request.json + is_stdout(request.html) + is_stdout(request.folded) > 1)
        return hf_command_wrong(who, "only one result can go to stdout");
    struct hf_keep keep = {.last = NULL};
    const int status = report(&request, &keep);
    hf_keep_release(&keep);
    return status;
}
