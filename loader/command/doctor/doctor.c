/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `homefree doctor`: runs a program, collects the records that its processes wrote, and hands them
 * to Python, which finds what is wrong in them and tells people and scripts
 * (python/homefree/command/doctor.py).
 *
 * Owns: the options and the table of rules. The program keeps its own output; the report follows it
 * as a whole, on stdout or in a file. One thread.
 */
#include "loader/command/doctor/doctor_live.h"
#include "loader/command/doctor/doctor_run.h"
#include "loader/command/program/python.h"
#include "loader/command/rules.h"

#include <homefree/homefree.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RECORD_MOST = 64 << 20 };

static const char who[] = "homefree doctor";
static const char instead[] = "use 'homefree inspect --json FILE', which needs no Python";

static const struct hf_rule_text rules[] = {
#define HF_DOCTOR_RULE(id, name, severity, explanation, remedy) \
    {name, HF_SEVERITY_##severity, explanation, remedy},
#include "loader/record/process_record.def"
#undef HF_DOCTOR_RULE
};
static const struct hf_rule_table table = {"doctor", 1, rules, sizeof rules / sizeof rules[0]};

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
    const char *moment, *output, *library, *record, *pid, *log, *core, *executable, *root, *crash;
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
    HF_VALUE_ARGUMENT("log", log, "FILE",
                      "explain the lines of a log in which a crash is told; '-' is\nstdin"),
    HF_VALUE_ARGUMENT("core", core, "FILE",
                      "explain a core file: whose the pointer was, and who freed it"),
    HF_VALUE_ARGUMENT("exe", executable, "FILE", "the program of the core file"),
    HF_VALUE_ARGUMENT("root", root, "DIR",
                      "look for the files of the core file's process below DIR"),
    HF_VALUE_ARGUMENT("crash", crash, "PLACE",
                      "explain the crash of the process that runs this command\n"
                      "(libhomefree-explain.so does)"),
    HF_RULES_ARGUMENT,
    {.name = NULL},
};

static const struct hf_command command = {
    .who = who,
    .usage = "homefree doctor [--json] [--all] [--at exit|start] [--children] [-o FILE]\n"
             "                       [--library FILE] [-- COMMAND [ARGUMENT]...]\n"
             "       homefree doctor [--json] [--all] [-o FILE] --read FILE\n"
             "       homefree doctor [--json] [--all] [-o FILE] --pid PID\n"
             "       homefree doctor [--json] [-o FILE] --log FILE\n"
             "       homefree doctor [--json] [-o FILE] --core FILE [--exe FILE] [--root DIR]\n"
             "       homefree doctor [--json] [-o FILE] --crash PLACE\n"
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

/* What a crash has left is read by Python alone. */
static bool is_of_crash(const struct request *request)
{
    return request->log != NULL || request->core != NULL || request->crash != NULL;
}

/* Returns HF_EXIT_NONE, or HF_EXIT_USAGE after an error message. */
static int check(const struct request *request, const struct hf_operand_list *operands)
{
    const bool running = request->moment != NULL || request->children || request->library != NULL ||
                         operands->count > 0;
    const int shown = (request->record != NULL) + (request->pid != NULL) + (request->log != NULL) +
                      (request->core != NULL) + (request->crash != NULL);
    if (request->moment != NULL && strcmp(request->moment, "exit") != 0 &&
        strcmp(request->moment, "start") != 0)
        return hf_command_wrong(who, "--at takes 'exit' or 'start'");
    if (operands->separated && operands->count == 0)
        return hf_command_wrong(who, "'--' is followed by no command");
    if (operands->count > 0 && operands->values[0][0] == '\0')
        return hf_command_wrong(who, "the command is empty");
    if (request->core == NULL && (request->executable != NULL || request->root != NULL))
        return hf_command_wrong(who, "--exe and --root go with --core");
    if (request->rules && (shown > 0 || running || request->all || request->output != NULL))
        return hf_command_wrong(who, "--rules goes with --json alone");
    if (request->record != NULL && running)
        return hf_command_wrong(who, "--read shows a record and runs nothing");
    if (request->pid != NULL && (running || request->record != NULL))
        return hf_command_wrong(who, "--pid shows a process that runs and goes with no command");
    if (is_of_crash(request) && (shown > 1 || running || request->all))
        return hf_command_wrong(who, "--log, --core and --crash go with --json and -o alone");
    return HF_EXIT_NONE;
}

/* ---- records, as Python gets them ----------------------------------------------------------- */

/* How the process ended; zero if unknown. */
struct end {
    int signal, status;
};

struct report {
    const struct request *request;
    const struct hf_doctor_run *run; /* NULL with --read and --pid */
    int process_record;              /* a descriptor, with --pid; otherwise -1 */
    int document;                    /* in memory; -1: none */
    size_t handed, failed;
};

static void complain_about(struct report *report, const char *what, const char *why)
{
    report->failed++;
    hf_command_complain(who, "cannot read the record of %s: %s", what, why);
}

/* Reads a file as a whole. Returns memory to be freed, or NULL with `why` set. */
static char *read_whole(int descriptor, size_t *size, const char **why)
{
    struct stat status;
    char *text = NULL;
    ssize_t got = fstat(descriptor, &status);
    *size = 0;
    if (got == 0 && !S_ISREG(status.st_mode)) {
        *why = "it is not a regular file";
        return NULL;
    }
    if (got == 0 && status.st_size > RECORD_MOST) {
        *why = "it is larger than any record";
        return NULL;
    }
    if (got == 0)
        text = malloc((size_t)status.st_size + 1);
    while (text != NULL && *size < (size_t)status.st_size &&
           ((got = pread(descriptor, text + *size, (size_t)status.st_size - *size, (off_t)*size)) >
                0 ||
            (got < 0 && errno == EINTR)))
        *size += got > 0 ? (size_t)got : 0;
    if (text != NULL && got >= 0)
        return text;
    *why = strerror(errno);
    free(text);
    return NULL;
}

/* Hands over one record, and closes it: a line of numbers, whose it is, and its bytes. */
static void hand_over(struct report *report, FILE *out, int descriptor, const char *what,
                      struct end end)
{
    size_t size;
    const char *why;
    char *text = read_whole(descriptor, &size, &why);
    close(descriptor);
    if (text == NULL) {
        complain_about(report, what, why);
        return;
    }
    fprintf(out, "%d %d %zu %zu\n%s", end.signal, end.status, strlen(what), size, what);
    fwrite(text, 1, size, out);
    report->handed++;
    free(text);
}

static void hand_file_over(struct report *report, FILE *out)
{
    const char *path = report->request->record;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct hf_keep keep = {.last = NULL};
    if (descriptor >= 0) {
        hand_over(report, out, descriptor, hf_keep_format(&keep, "'%s'", path), (struct end){0, 0});
    } else {
        report->failed++;
        hf_command_complain(who, "cannot open '%s': %s", path, strerror(errno));
    }
    hf_keep_release(&keep);
}

static void hand_main_over(struct report *report, FILE *out)
{
    const struct hf_doctor_run *run = report->run;
    const int descriptor = hf_doctor_run_open(run, run->pid);
    if (descriptor >= 0) {
        const struct end end = {
            .signal = WIFSIGNALED(run->status) ? WTERMSIG(run->status) : 0,
            .status = WIFEXITED(run->status) ? WEXITSTATUS(run->status) : 0,
        };
        hand_over(report, out, descriptor, "the program", end);
        return;
    }
    report->failed++;
    hf_command_complain(who, "'%s' left no record: %s", run->command[0],
                        descriptor == -ENOENT ? hf_doctor_run_why(run) : strerror(-descriptor));
}

/* Records are named by process numbers. The program may have put anything else beside them. */
static int is_record(const struct dirent *entry)
{
    return entry->d_name[0] != '\0' && entry->d_name[strspn(entry->d_name, "0123456789")] == '\0';
}

/* Hands over the records of all other processes, ordered by process number. */
static void hand_children_over(struct report *report, FILE *out)
{
    struct dirent **records;
    const int count = scandir(report->run->directory, &records, is_record, versionsort);
    if (count < 0) {
        complain_about(report, "other processes", strerror(errno));
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
        if (descriptor >= 0)
            hand_over(report, out, descriptor, what, (struct end){0, 0});
        else
            complain_about(report, what, strerror(-descriptor));
    }
    free(records);
}

static bool compose(FILE *out, void *context)
{
    struct report *report = context;
    if (report->process_record >= 0) {
        hand_over(report, out, report->process_record, "the process", (struct end){0, 0});
    } else if (report->run == NULL) {
        hand_file_over(report, out);
    } else {
        hand_main_over(report, out);
        if (report->request->children)
            hand_children_over(report, out);
    }
    /* Without a record, the error message is all that people see. */
    return report->request->json || report->handed > 0;
}

static int collect(struct report *report)
{
    return hf_python_document(who, compose, report, &report->document);
}

/* What Python gets of every request. */
static void add_request(struct hf_words *words, const struct request *request)
{
    hf_words_add(words, "version", HF_VERSION);
    hf_words_add(words, "format", hf_keep_format(words->keep, "%u", table.format));
    hf_words_add_options(words, arguments_table, request);
}

/* How the program ended. */
static void add_end(struct hf_words *words, const struct report *report)
{
    const int status = report->run->status;
    for (char **argument = report->run->command; *argument != NULL; argument++)
        hf_words_add(words, "argument", *argument);
    hf_words_add(words, WIFSIGNALED(status) ? "signal" : "status",
                 hf_keep_format(words->keep, "%d",
                                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)));
    hf_words_add(words, "left_core", WIFSIGNALED(status) && WCOREDUMP(status) ? "1" : NULL);
}

/* `report` is NULL for what a crash has left. */
static int become_python(const struct request *request, const struct report *report)
{
    struct hf_keep keep = {.last = NULL};
    struct hf_words words = {.keep = &keep};
    if (report != NULL) {
        hf_words_add(&words, "document", hf_keep_format(&keep, "%d", report->document));
        hf_words_add(&words, "failed", hf_keep_format(&keep, "%zu", report->failed));
    }
    add_request(&words, request);
    if (report != NULL && report->run != NULL)
        add_end(&words, report);
    const int result = hf_python_become(who, "doctor", &words,
                                        report != NULL ? instead : "read the manual's rules");
    hf_keep_release(&keep);
    return result;
}

/* ---- processes ------------------------------------------------------------------------------ */

/* Records a running process. */
static int look_at(struct report *report)
{
    struct hf_live_process process;
    const char *why;
    int status = hf_live_open(who, report->request->pid, &process);
    if (status != HF_EXIT_NONE)
        return status;
    report->process_record = hf_doctor_live_record(&process, &why);
    if (report->process_record >= 0) {
        status = collect(report);
    } else {
        hf_command_complain(who, "cannot look at process %d: %s", (int)process.pid, why);
        status = HF_EXIT_FAILED;
    }
    hf_live_close(&process);
    return status;
}

/* Runs the command. Not if what it leaves could not be shown. */
static int look_after(struct report *report, struct hf_doctor_run *run)
{
    int result = hf_python_check(who, instead);
    if (report->request->command == default_command)
        hf_python_find(python, sizeof python);
    if (result == HF_EXIT_CLEAN)
        result = hf_doctor_run(who, run);
    report->run = run;
    if (result == HF_EXIT_CLEAN)
        result = collect(report);
    hf_doctor_run_end(run);
    return result;
}

static int run(const struct request *request)
{
    struct report report = {.request = request, .process_record = -1, .document = -1};
    struct hf_doctor_run run = {
        .command = request->command,
        .library = request->library,
        .start = request->moment != NULL && strcmp(request->moment, "start") == 0,
        .children = request->children,
        .stdout_is_stderr = request->json && strcmp(request->output, "-") == 0,
    };
    const int result = request->pid != NULL      ? look_at(&report)
                       : request->record != NULL ? collect(&report)
                                                 : look_after(&report, &run);
    if (result != HF_EXIT_CLEAN)
        return result;
    return report.document < 0 ? HF_EXIT_FAILED : become_python(request, &report);
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
        return hf_rules_list(who, &table, request.json);
    request.command = operands.count > 0 ? operands.values : default_command;
    if (request.output == NULL)
        request.output = "-";
    return is_of_crash(&request) ? become_python(&request, NULL) : run(&request);
}
