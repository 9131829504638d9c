/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `homefree doctor`: runs a program, reads the records that its processes wrote, and makes a
 * document of them, which Python shows to people (python/homefree/command/doctor.py).
 *
 * Owns: the options, the sequence of steps, and all error messages. The program keeps its own
 * output; the report follows it as a whole, on stdout or in a file. One thread.
 */
#include "loader/command/doctor/doctor_document.h"
#include "loader/command/doctor/doctor_live.h"
#include "loader/command/doctor/doctor_run.h"
#include "loader/command/program/python.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char who[] = "homefree doctor";
static const char instead[] = "use --json, which needs no Python";

/* The program that runs without COMMAND: Python with the packages that homefree's users have. */
static char probe[] = "try:\n"
                      " import homefree\n"
                      "except ImportError:\n"
                      " pass\n"
                      "else:\n"
                      " homefree.install()\n";
static char python[PATH_MAX], minus_c[] = "-c";
static char *default_command[] = {python, minus_c, probe, NULL};

struct request {
    bool json, all, rules, children;
    const char *moment, *output, *library, *record, *pid;
    char **command;
};

/* ---- the command line ----------------------------------------------------------------------- */

static const struct hf_argument arguments_table[] = {
    HF_VALUE_ARGUMENT("at", moment, "exit|start",
                      "when to look: when the program ends, also by a signal\n"
                      "(the default), or when it has started"),
    HF_FLAG_ARGUMENT("children", children,
                     "report every process that the program starts and that\n"
                     "ends before it"),
    HF_FLAG_ARGUMENT("all", all, "list every object, not only those that differ from most"),
    HF_JSON_ARGUMENT("write a JSON document; COMMAND's stdout then goes to\n"
                     "stderr, unless -o is given"),
    HF_OUTPUT_ARGUMENT("write to FILE; '-' is stdout, the default"),
    HF_VALUE_ARGUMENT("library", library, "FILE", "preload this libhomefree"),
    HF_VALUE_ARGUMENT("read", record, "FILE", "show a record that hf_doctor_record() wrote"),
    HF_VALUE_ARGUMENT("pid", pid, "PID",
                      "show a running process, which is neither stopped nor asked"),
    HF_RULES_ARGUMENT,
    {.name = NULL},
};

static const struct hf_command command = {
    .who = who,
    .usage = "homefree doctor [--json] [--all] [--at exit|start] [--children] [-o FILE]\n"
             "                       [--library FILE] [-- COMMAND [ARGUMENT]...]\n"
             "       homefree doctor [--json] [--all] [-o FILE] --read FILE\n"
             "       homefree doctor [--json] [--all] [-o FILE] --pid PID\n"
             "       homefree doctor --rules [--json]\n",
    .about =
        "Runs COMMAND with libhomefree preloaded. When it has ended, reports the allocators that\n"
        "lived in it, which objects used which, what routing reached, and what to do about the\n"
        "rest. Without COMMAND, runs the Python that this command was installed for, with\n"
        "'import homefree; homefree.install()'.\n",
    .notes =
        "Exit status: 0 clean (also with notes), 1 findings, 2 wrong usage, 3 failed. A COMMAND\n"
        "that fails (it exits with another status than 0, or a signal ends it) is a finding.\n"
        "\n"
        "Example: homefree doctor -- python3 -c 'import numpy, torch'\n",
    .arguments = arguments_table,
    .operands = HF_OPERANDS_LAST,
};

/* Returns HF_EXIT_NONE, or HF_EXIT_USAGE after an error message. */
static int check(const struct request *request, const struct hf_operand_list *operands)
{
    const bool running = request->moment != NULL || request->children || request->library != NULL ||
                         operands->count > 0;
    if (request->moment != NULL && strcmp(request->moment, "exit") != 0 &&
        strcmp(request->moment, "start") != 0)
        return hf_command_wrong(who, "--at takes 'exit' or 'start'");
    if (operands->separated && operands->count == 0)
        return hf_command_wrong(who, "'--' is followed by no command");
    if (operands->count > 0 && operands->values[0][0] == '\0')
        return hf_command_wrong(who, "the command is empty");
    if (request->rules && (request->record != NULL || request->pid != NULL || running ||
                           request->all || request->output != NULL))
        return hf_command_wrong(who, "--rules goes with --json alone");
    if (request->record != NULL && running)
        return hf_command_wrong(who, "--read shows a record and runs nothing");
    if (request->pid != NULL && (running || request->record != NULL))
        return hf_command_wrong(who, "--pid shows a process that runs and goes with no command");
    return HF_EXIT_NONE;
}

/* ---- the report ----------------------------------------------------------------------------- */

struct report {
    const struct request *request;
    const struct hf_doctor_run *run;       /* NULL with --read and --pid */
    const struct hf_live_process *process; /* NULL but with --pid */
    int process_record;                    /* a descriptor, with --pid */
    struct hf_json json;
    int document; /* in memory; -1: none */
    size_t shown;
    struct hf_rule_totals found;
};

static void complain_about(const char *what, int result, const char *why)
{
    hf_command_complain(who, "cannot read the record of %s: %s", what,
                        why != NULL ? why : strerror(-result));
}

/* Shows one record, and closes it. */
static void show(struct report *report, int descriptor, const char *what, struct hf_record_end end)
{
    struct hf_record record;
    int result = hf_record_read(descriptor, &record);
    close(descriptor);
    if (result == 0 && report->run != NULL && end.signal == 0 &&
        strcmp(record.moment, "signal") == 0)
        end.signal = record.signal;
    record.process = report->process;
    if (result != 0) {
        report->found.failed++;
        complain_about(what, result, record.why);
    } else {
        report->shown++;
        hf_record_find(&record, end);
        hf_doctor_write_json(&report->json, &record, &report->found);
    }
    hf_record_free(&record);
}

static void show_record(struct report *report, const char *path)
{
    char *what = NULL;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        report->found.failed++;
        hf_command_complain(who, "cannot open '%s': %s", path, strerror(errno));
    } else if (asprintf(&what, "'%s'", path) < 0) {
        report->found.failed++;
        close(descriptor);
        (void)hf_command_out_of_memory(who);
    } else {
        show(report, descriptor, what, (struct hf_record_end){0, 0});
        free(what);
    }
}

static void show_main(struct report *report)
{
    const struct hf_doctor_run *run = report->run;
    const int descriptor = hf_doctor_run_open(run, run->pid);
    if (descriptor >= 0) {
        const struct hf_record_end end = {
            .signal = WIFSIGNALED(run->status) ? WTERMSIG(run->status) : 0,
            .status = WIFEXITED(run->status) ? WEXITSTATUS(run->status) : 0,
        };
        show(report, descriptor, "the program", end);
        return;
    }
    report->found.failed++;
    hf_command_complain(who, "'%s' left no record: %s", run->command[0],
                        descriptor == -ENOENT ? hf_doctor_run_why(run) : strerror(-descriptor));
}

/* Records are named by process numbers. The program may have put anything else beside them. */
static int is_record(const struct dirent *entry)
{
    return entry->d_name[0] != '\0' && entry->d_name[strspn(entry->d_name, "0123456789")] == '\0';
}

/* Shows the records of all other processes, ordered by process number. */
static void show_children(struct report *report)
{
    struct dirent **records;
    const int count = scandir(report->run->directory, &records, is_record, versionsort);
    if (count < 0) {
        report->found.failed++;
        complain_about("other processes", -errno, NULL);
        return;
    }
    for (int i = 0; i < count; i++) {
        char what[64];
        const long pid = strtol(records[i]->d_name, NULL, 10);
        free(records[i]);
        if (pid == report->run->pid)
            continue;
        const int descriptor = hf_doctor_run_open(report->run, (pid_t)pid);
        snprintf(what, sizeof what, "process %ld", pid);
        if (descriptor >= 0) {
            show(report, descriptor, what, (struct hf_record_end){0, 0});
        } else {
            report->found.failed++;
            complain_about(what, descriptor, NULL);
        }
    }
    free(records);
}

static void write_status(struct hf_json *json, const struct hf_doctor_run *run)
{
    hf_json_object(json, "command");
    hf_json_array(json, "arguments");
    for (char **argument = run->command; *argument != NULL; argument++)
        hf_json_string(json, NULL, *argument);
    hf_json_close(json);
    if (WIFSIGNALED(run->status)) {
        hf_json_string(json, "status", NULL);
        hf_json_signed(json, "signal", WTERMSIG(run->status));
    } else {
        hf_json_signed(json, "status", WEXITSTATUS(run->status));
        hf_json_string(json, "signal", NULL);
    }
    hf_json_boolean(json, "core", WIFSIGNALED(run->status) && WCOREDUMP(run->status));
    hf_json_close(json);
}

static bool compose(FILE *out, void *context)
{
    struct report *report = context;
    struct hf_json *json = &report->json;
    if (report->request->json)
        hf_json_begin(json, out, hf_doctor_table.command, hf_doctor_table.format);
    else
        hf_json_begin_plain(json, out, true);
    if (report->run != NULL)
        write_status(json, report->run);
    hf_json_array(json, "processes");
    if (report->process != NULL) {
        show(report, report->process_record, "the process", (struct hf_record_end){0, 0});
    } else if (report->run == NULL) {
        show_record(report, report->request->record);
    } else {
        show_main(report);
        if (report->request->children)
            show_children(report);
    }
    hf_json_close(json);
    hf_json_object(json, "summary");
    hf_json_unsigned(json, "processes", report->shown);
    hf_rules_totals(json, &report->found);
    hf_json_close(json);
    hf_json_finish(json);
    /* Without a record, the error message is all that people see. */
    return report->request->json || report->shown > 0;
}

/* Writes the document, or leaves it in memory for Python. */
static int write_report(struct report *report)
{
    return report->request->json ? hf_command_compose(who, report->request->output, compose, report)
                                 : hf_python_document(who, compose, report, &report->document);
}

static int become_python(const struct report *report)
{
    struct hf_keep keep = {.last = NULL};
    struct hf_words words = {.keep = &keep};
    hf_words_add(&words, "document", hf_keep_format(&keep, "%d", report->document));
    hf_words_add(&words, "output", report->request->output);
    hf_words_add(&words, "all", report->request->all ? "1" : NULL);
    const int result = hf_python_become(who, "doctor", &words, instead);
    hf_keep_release(&keep);
    return result;
}

/* Shows a running process. */
static int look_at(struct report *report)
{
    const struct request *request = report->request;
    struct hf_live_process process;
    const char *why;
    int status = hf_live_open(who, request->pid, &process);
    if (status != HF_EXIT_NONE)
        return status;
    report->process_record = hf_doctor_live_record(&process, &why);
    if (report->process_record < 0) {
        hf_command_complain(who, "cannot look at process %d: %s", (int)process.pid, why);
        status = HF_EXIT_FAILED;
    } else {
        report->process = &process;
        status = write_report(report);
        report->process = NULL;
    }
    hf_live_close(&process);
    return status;
}

/* Runs the command and writes a report. Nothing is run if its report could not be shown. */
static int look_after(struct report *report)
{
    const struct request *request = report->request;
    struct hf_doctor_run program = {
        .command = request->command,
        .library = request->library,
        .start = request->moment != NULL && strcmp(request->moment, "start") == 0,
        .children = request->children,
        .stdout_is_stderr = request->json && strcmp(request->output, "-") == 0,
    };
    int result = request->json ? HF_EXIT_CLEAN : hf_python_check(who, instead);
    if (request->command == default_command)
        hf_python_find(python, sizeof python);
    if (result == HF_EXIT_CLEAN)
        result = hf_doctor_run(who, &program);
    report->run = &program;
    if (result == HF_EXIT_CLEAN)
        result = write_report(report);
    report->run = NULL;
    hf_doctor_run_end(&program);
    return result;
}

static int run(const struct request *request)
{
    struct report report = {.request = request, .document = -1};
    const int result = request->pid != NULL      ? look_at(&report)
                       : request->record != NULL ? write_report(&report)
                                                 : look_after(&report);
    if (result != HF_EXIT_CLEAN)
        return result;
    return report.document < 0 ? hf_rules_status(&report.found) : become_python(&report);
}

int hf_command_doctor(int count, char **arguments)
{
    struct request request = {.json = false};
    struct hf_operand_list operands;
    int result = hf_command_read(&command, &request, count, arguments, &operands);
    if (result == HF_EXIT_NONE)
        result = check(&request, &operands);
    if (result != HF_EXIT_NONE)
        return result;
    if (request.rules)
        return hf_rules_list(who, &hf_doctor_table, request.json);
    request.command = operands.count > 0 ? operands.values : default_command;
    if (request.output == NULL)
        request.output = "-";
    return run(&request);
}
