/*
 * doctor.c - `homefree doctor`: runs a program, reads the records that its processes left, and says
 * what they tell.
 *
 * Owns: the options, the order of things, and all complaints. What the program prints is its own:
 * the report comes after it, on stdout or in a file, and all at once.
 */
#include "command.h"
#include "doctor_run.h"
#include "doctor_show.h"
#include "rules.h"
#include "text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORMAT = 1 };

static const char who[] = "homefree doctor";

static const char help[] =
    "Usage: homefree doctor [--json] [--all] [--at exit|start] [--children] [-o FILE]\n"
    "                       [--library FILE] [-- COMMAND [ARGUMENT]...]\n"
    "       homefree doctor [--json] [--all] [-o FILE] --read FILE\n"
    "       homefree doctor --rules [--json]\n"
    "\n"
    "Runs COMMAND with libhomefree preloaded and tells, when it has ended, which allocators lived\n"
    "in it, which objects used which, what routing reached, and what to do about the rest.\n"
    "Without COMMAND it looks at the Python that this command was installed for, after\n"
    "'import homefree; homefree.install()'.\n"
    "\n"
    "  --at exit|start     when to look: when the program ends, also by a signal (the default),\n"
    "                      or when it has started\n"
    "  --children          tell of every process that the program starts and that ends before it\n"
    "  --all               list every object, not only those that differ from most\n"
    "  --json              write a JSON document; COMMAND's stdout goes to stderr then,\n"
    "                      unless -o is given\n"
    "  -o, --output FILE   write to FILE; '-' is stdout, the default\n"
    "  --library FILE      preload this libhomefree\n"
    "  --read FILE         show a record that hf_doctor_record() wrote\n"
    "  --rules             list the rules, with explanations\n"
    "  -h, --help          print this help\n"
    "\n"
    "Exit status: 0 clean, 1 findings, 2 wrong usage, 3 could not do it. Notes are no findings;\n"
    "a COMMAND that fails (exits with another status than 0, or by a signal) is one.\n"
    "\n"
    "Example: homefree doctor -- python3 -c 'import numpy, torch'\n";

/* What is looked at without COMMAND: a Python as homefree's users have it. */
static char probe[] = "try:\n"
                      " import homefree\n"
                      "except ImportError:\n"
                      " pass\n"
                      "else:\n"
                      " homefree.install()\n";
static char python[PATH_MAX], minus_c[] = "-c";
static char *default_command[] = {python, minus_c, probe, NULL};

struct request {
    bool json, all, help, rules, start, children;
    const char *output, *library, *record;
    char **command;
};

/* ---- the command line ----------------------------------------------------------------------- */

static int wrong(const char *message)
{
    hf_command_complain(who, "%s; 'homefree doctor --help' tells how", message);
    return HF_EXIT_USAGE;
}

static int check(const struct request *request, bool any_run, bool command)
{
    if (request->rules &&
        (request->record != NULL || any_run || command || request->all || request->output != NULL))
        return wrong("--rules goes with --json alone");
    if (request->record != NULL && (any_run || command))
        return wrong("--read shows a record, and runs nothing");
    return HF_EXIT_CLEAN;
}

/* Result: HF_EXIT_CLEAN, or HF_EXIT_USAGE after a complaint. */
static int read_arguments(struct request *request, int count, char **arguments)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'},         {"all", no_argument, NULL, 'a'},
        {"at", required_argument, NULL, 't'},     {"children", no_argument, NULL, 'c'},
        {"output", required_argument, NULL, 'o'}, {"library", required_argument, NULL, 'l'},
        {"read", required_argument, NULL, 'r'},   {"rules", no_argument, NULL, 'R'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
    };
    bool any_run = false; /* an option that matters to running something was given */
    optind = 0;           /* main.c handed over a part of argv: getopt must begin anew */
    opterr = 0;
    for (;;) {
        /* '+': the command's own options are its own, also without "--". */
        const int option = getopt_long(count, arguments, "+:o:h", options, NULL);
        if (option == -1)
            break;
        any_run = any_run || option == 't' || option == 'c' || option == 'l';
        switch (option) {
        case 'j':
            request->json = true;
            break;
        case 'a':
            request->all = true;
            break;
        case 't':
            if (strcmp(optarg, "exit") != 0 && strcmp(optarg, "start") != 0)
                return wrong("--at takes 'exit' or 'start'");
            request->start = strcmp(optarg, "start") == 0;
            break;
        case 'c':
            request->children = true;
            break;
        case 'o':
            request->output = optarg;
            break;
        case 'l':
            request->library = optarg;
            break;
        case 'r':
            request->record = optarg;
            break;
        case 'R':
            request->rules = true;
            break;
        case 'h':
            request->help = true;
            return HF_EXIT_CLEAN;
        default:
            return hf_command_bad_option(who, option, arguments);
        }
    }
    const bool separated = optind > 1 && strcmp(arguments[optind - 1], "--") == 0;
    const bool command = optind < count;
    if (separated && !command)
        return wrong("'--' is followed by no command");
    if (command && arguments[optind][0] == '\0')
        return wrong("the command is empty");
    request->command = command ? arguments + optind : default_command;
    return check(request, any_run, command);
}

/* ---- the report ----------------------------------------------------------------------------- */

struct report {
    const struct request *request;
    const struct hf_doctor_run *run; /* NULL: a record was read */
    FILE *out;
    struct hf_json json;
    bool coloured;
    size_t shown;
    struct hf_rule_totals found;
    bool rules[HF_DOCTOR_RULE_COUNT];
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
    if (result == 0)
        result = hf_record_find(&record, end);
    if (result != 0) {
        report->found.failed++;
        complain_about(what, result, record.why);
    } else {
        report->shown++;
        for (size_t i = 0; i < record.findings_count; i++) {
            report->found.severities[hf_doctor_rules[record.findings[i].rule].severity]++;
            report->rules[record.findings[i].rule] = true;
        }
        if (report->request->json)
            hf_doctor_write_json(&report->json, &record);
        else
            hf_doctor_print(report->out, &record, report->request->all, report->coloured);
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

static int compare_pids(const void *left, const void *right)
{
    const long a = *(const long *)left, b = *(const long *)right;
    return (a > b) - (a < b);
}

/* Every other process's, in the order of their numbers. */
static void show_children(struct report *report)
{
    DIR *folder = opendir(report->run->folder);
    long *pids = NULL;
    size_t count = 0;
    bool enough = true;
    for (struct dirent *entry = NULL; folder != NULL && (entry = readdir(folder)) != NULL;) {
        char *end;
        const long pid = strtol(entry->d_name, &end, 10);
        if (*end != '\0' || pid <= 0 || pid == report->run->pid)
            continue;
        long *more = realloc(pids, (count + 1) * sizeof *pids);
        enough = enough && more != NULL;
        if (more == NULL)
            break;
        pids = more;
        pids[count++] = pid;
    }
    if (folder != NULL)
        closedir(folder);
    if (!enough) {
        report->found.failed++;
        (void)hf_command_out_of_memory(who);
    }
    if (count > 0)
        qsort(pids, count, sizeof *pids, compare_pids);
    for (size_t i = 0; i < count; i++) {
        char what[64];
        const int descriptor = hf_doctor_run_open(report->run, (pid_t)pids[i]);
        snprintf(what, sizeof what, "process %ld", pids[i]);
        if (descriptor >= 0) {
            show(report, descriptor, what, (struct hf_record_end){0, 0});
        } else {
            report->found.failed++;
            complain_about(what, descriptor, NULL);
        }
    }
    free(pids);
}

static void print_status(FILE *out, const struct hf_doctor_run *run)
{
    hf_text_print(out, run->command[0]);
    if (WIFSIGNALED(run->status))
        fprintf(out, " was ended by %s%s", hf_doctor_signal(WTERMSIG(run->status)),
                WCOREDUMP(run->status) ? ", and left a core file" : "");
    else
        fprintf(out, " exited with status %d", WEXITSTATUS(run->status));
    fputs(".\n\n", out);
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
    hf_json_close(json);
}

static void write_report(struct report *report)
{
    struct hf_json *json = &report->json;
    if (report->request->json) {
        hf_json_begin(json, report->out, "doctor", FORMAT);
        if (report->run != NULL)
            write_status(json, report->run);
        hf_json_array(json, "processes");
    } else if (report->run != NULL) {
        print_status(report->out, report->run);
    }
    if (report->run == NULL) {
        show_record(report, report->request->record);
    } else {
        show_main(report);
        if (report->request->children)
            show_children(report);
    }
    if (!report->request->json) {
        hf_doctor_print_remedies(report->out, report->rules);
        return;
    }
    hf_json_close(json);
    hf_json_object(json, "summary");
    hf_json_unsigned(json, "processes", report->shown);
    hf_rules_totals(json, &report->found);
    hf_json_close(json);
    hf_json_finish(json);
}

/* Makes the text of `report` (NULL: the rules) and puts it where it belongs. */
static int write_out(const struct request *request, struct report *report)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        return hf_command_out_of_memory(who);
    if (report != NULL) {
        report->out = out;
        write_report(report);
    } else {
        hf_rules_list(out, request->json, "doctor rules", FORMAT, hf_doctor_rules,
                      HF_DOCTOR_RULE_COUNT);
    }
    const bool whole = ferror(out) == 0;
    int result = fclose(out) == 0 && whole ? HF_EXIT_CLEAN : hf_command_out_of_memory(who);
    /* Without any record there is nothing but the complaint; a document says so itself. */
    if (result == HF_EXIT_CLEAN && (report == NULL || report->shown > 0 || request->json))
        result =
            hf_command_write(who, request->output != NULL ? request->output : "-", text, length);
    free(text);
    return result;
}

static int run(const struct request *request)
{
    const bool to_stdout = request->output == NULL || strcmp(request->output, "-") == 0;
    struct report report = {
        .request = request,
        .coloured = to_stdout && hf_text_coloured(),
    };
    struct hf_doctor_run program = {
        .command = request->command,
        .library = request->library,
        .start = request->start,
        .children = request->children,
        .stdout_is_stderr = request->json && to_stdout,
    };
    int result = HF_EXIT_CLEAN;
    if (request->record == NULL) {
        report.run = &program;
        if (request->command == default_command)
            hf_doctor_run_python(python, sizeof python);
        result = hf_doctor_run(who, &program);
    }
    if (result == HF_EXIT_CLEAN)
        result = write_out(request, &report);
    hf_doctor_run_end(&program);
    if (result != HF_EXIT_CLEAN)
        return result;
    return hf_rules_status(&report.found);
}

int hf_command_doctor(int count, char **arguments)
{
    struct request request = {.json = false};
    const int result = read_arguments(&request, count, arguments);
    if (result != HF_EXIT_CLEAN)
        return result;
    if (request.help)
        return hf_command_print(who, help, sizeof help - 1);
    return request.rules ? write_out(&request, NULL) : run(&request);
}
