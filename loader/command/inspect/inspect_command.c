/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `homefree inspect`: the command line, and the document of files. Directories, archives and
 * distributions, and what people and CI read, are Python's (python/homefree/command/inspect.py),
 * which has objects inspected by this command with --listed.
 *
 * Owns: the options. A file that cannot be inspected does not stop the others. One thread.
 */
#include "loader/command/arguments.h"
#include "loader/command/inspect/inspected.h"
#include "loader/command/program/preload.h"
#include "loader/command/program/python.h"
#include "loader/command/suggest.h"

#include <homefree/homefree.h>

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char who[] = "homefree inspect";

/* ---- the options ---------------------------------------------------------------------------- */

struct request {
    bool json, rules, all, require_homefree, adoption, environment;
    char *python;
    const char *junit, *sarif, *github, *baseline, *write_baseline, *listed, *root;
    bool fail_on, look_for_linked, fails[HF_RULES_MAX];
    const char **packages; /* with room for all arguments */
    size_t packages_count;
    struct hf_operand_list files;
};

static const char *severity_at(size_t index, const void *context)
{
    (void)context;
    return index <= HF_SEVERITY_ERROR ? hf_severity_name((enum hf_severity)index) : NULL;
}

static const char *rule_at(size_t index, const void *context)
{
    return index < HF_RULE_COUNT ? hf_rules[index].name
                                 : severity_at(index - HF_RULE_COUNT, context);
}

static int unknown_rule(const char *name)
{
    char *list = NULL;
    size_t length;
    const char *near = hf_suggest(name, rule_at, NULL);
    FILE *out = open_memstream(&list, &length);
    if (out == NULL)
        return hf_command_out_of_memory(who);
    for (size_t i = 0; i < HF_RULE_COUNT; i++)
        fprintf(out, "%s%s", i == 0 ? "" : ", ", hf_rules[i].name);
    fclose(out);
    const int result = hf_command_wrong(
        who,
        "unknown rule '%s'%s%s%s; the rules are %s; 'error', 'warning' and 'note' stand for all of "
        "a severity",
        name, near != NULL ? " (did you mean '" : "", near != NULL ? near : "",
        near != NULL ? "'?)" : "", list != NULL ? list : "");
    free(list);
    return result;
}

/* One name of a rule or of a severity. */
static int take_rule(struct request *request, const char *name)
{
    bool known = false;
    for (size_t i = 0; i < HF_RULE_COUNT; i++) {
        const bool named = strcmp(name, hf_rules[i].name) == 0;
        if (named || strcmp(name, hf_severity_name(hf_rules[i].severity)) == 0)
            known = request->fails[i] = true;
        if (named && i == HF_RULE_NOT_LINKED)
            request->look_for_linked = true;
    }
    return known ? HF_EXIT_CLEAN : unknown_rule(name);
}

static int take_rules(void *context, const char *value)
{
    struct request *request = context;
    int result = HF_EXIT_CLEAN;
    request->fail_on = true;
    for (const char *at = value; at != NULL && result == HF_EXIT_CLEAN;) {
        const size_t length = strcspn(at, ",");
        char *name = strndup(at, length);
        result = name != NULL ? take_rule(request, name) : hf_command_out_of_memory(who);
        free(name);
        at = at[length] == ',' ? at + length + 1 : NULL;
    }
    return result;
}

static int take_package(void *context, const char *value)
{
    struct request *request = context;
    if (value[0] == '\0')
        return hf_command_wrong(who, "'' is no name of a distribution");
    request->packages[request->packages_count++] = value;
    return HF_EXIT_CLEAN;
}

static const struct hf_argument arguments_table[] = {
    {.name = "package",
     .value = "NAME",
     .help = "inspect an installed distribution; may be given several\n"
             "times",
     .take = take_package},
    {.name = "fail-on",
     .value = "RULE[,RULE]",
     .help = "only findings of these rules make the exit status 1;\n"
             "'error', 'warning' and 'note' stand for all of a\n"
             "severity",
     .take = take_rules},
    HF_FLAG_ARGUMENT("environment", environment,
                     "say what all objects would do to each other in one process.\n"
                     "A path may also be a Python, whose packages are meant; it is\n"
                     "the default"),
    HF_VALUE_ARGUMENT("root", root, "PATH",
                      "the same for another file system: a directory that has one,\n"
                      "or the tar file of a container's image. Paths are in it; the\n"
                      "default are all environments there"),
    HF_FLAG_ARGUMENT("require-homefree", require_homefree,
                     "fail for extension modules that allocate elsewhere than\n"
                     "on homefree's heap"),
    HF_FLAG_ARGUMENT("adoption", adoption,
                     "say for objects with an allocator inside whether they can\n"
                     "be adopted, and why not; takes up to a second for each"),
    HF_JSON_ARGUMENT("print a JSON document instead of the text"),
    HF_VALUE_ARGUMENT("junit", junit, "FILE", "write a JUnit file as well; - prints it"),
    HF_VALUE_ARGUMENT("sarif", sarif, "FILE", "write a SARIF 2.1.0 file as well; - prints it"),
    HF_VALUE_ARGUMENT("github", github, "FILE",
                      "write GitHub's annotations as well; - prints them"),
    HF_VALUE_ARGUMENT("baseline", baseline, "FILE",
                      "findings that FILE names are known, and do not make the\n"
                      "exit status 1"),
    HF_VALUE_ARGUMENT("write-baseline", write_baseline, "FILE",
                      "write what is found to FILE, for --baseline; - prints it"),
    HF_FLAG_ARGUMENT("all", all, "show each object by itself, clean ones, too"),
    HF_VALUE_ARGUMENT("python", python, "PROGRAM",
                      "the Python whose distributions --package names; the\n"
                      "default is the one that runs 'python -m homefree', or\n"
                      "python3"),
    HF_RULES_ARGUMENT,
    HF_VALUE_ARGUMENT("listed", listed, "FD", NULL), /* hf_inspected_answer() */
    {.name = NULL},
};

static const struct hf_command command = {
    .who = who,
    .usage = "homefree inspect [OPTION]... FILE|DIRECTORY|WHEEL...\n"
             "       homefree inspect [OPTION]... --package NAME\n"
             "       homefree inspect [OPTION]... --environment [PYTHON|DIRECTORY|WHEEL]...\n"
             "       homefree inspect --rules [--json]\n",
    .about =
        "Shows what shared objects would do to the process that loads them: the allocators in\n"
        "them, the allocator names they export, exports beyond what Python calls, static TLS,\n"
        "the version of homefree they need, and libraries they need and do not use. Runs no code\n"
        "of the files. Looks into directories, wheels, and zip and tar archives, without "
        "unpacking\n"
        "them. Objects for macOS and Windows are read, too.\n",
    .notes =
        "Exit status: 0 clean (also with notes), 1 warnings or errors, 2 wrong usage, 3 a file\n"
        "could not be inspected.\n"
        "\n"
        "Example: homefree inspect dist/*.whl --junit inspect.xml --fail-on error,own-free\n",
    .arguments = arguments_table,
    .operands = HF_OPERANDS_ANYWHERE,
};

static bool is_stdout(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0;
}

/* Returns HF_EXIT_NONE, or HF_EXIT_USAGE after an error message. */
static int check(const struct request *request)
{
    const size_t count = request->files.count + request->packages_count;
    if (request->rules && count > 0)
        return hf_command_wrong(who, "--rules takes no file");
    if (!request->rules && request->listed == NULL && count == 0 && !request->environment)
        return hf_command_wrong(who, "give at least one file");
    if (request->environment && request->packages_count > 0)
        return hf_command_wrong(who, "--environment takes no --package");
    if (request->root != NULL && (!request->environment || request->adoption))
        return hf_command_wrong(who, "--root needs --environment, and takes no --adoption");
    if (request->json + is_stdout(request->junit) + is_stdout(request->sarif) +
            is_stdout(request->github) + is_stdout(request->write_baseline) >
        1)
        return hf_command_wrong(who, "only one of --json, --junit -, --sarif -, --github - and "
                                     "--write-baseline - can be printed");
    return HF_EXIT_NONE;
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Whether Python finds out what is in there: a directory, or a file that may be an archive. */
static bool holds_objects(const char *path)
{
    struct stat status;
    char magic[SELFMAG] = "";
    if (stat(path, &status) != 0 || (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)))
        return false;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const bool object = descriptor >= 0 && read(descriptor, magic, sizeof magic) == SELFMAG &&
                        memcmp(magic, ELFMAG, SELFMAG) == 0;
    if (descriptor >= 0)
        close(descriptor);
    return !object;
}

static bool needs_python(const struct request *request)
{
    bool needs = !request->json || request->junit != NULL || request->sarif != NULL ||
                 request->github != NULL || request->baseline != NULL ||
                 request->write_baseline != NULL || request->packages_count > 0 ||
                 request->environment;
    for (size_t i = 0; i < request->files.count && !needs; i++)
        needs = holds_objects(request->files.values[i]);
    return needs;
}

/* Adds the words for python/homefree/command/inspect.py. */
static void add_words(struct hf_words *words, const struct request *request, const bool *fails)
{
    hf_words_add(words, "version", HF_VERSION);
    hf_words_add(words, "format", hf_keep_format(words->keep, "%u", hf_inspect_table.format));
    hf_words_add_options(words, arguments_table, request);
    hf_words_add(words, "static_tls",
                 hf_keep_format(words->keep, "%d %d", HF_STATIC_TLS_LATE, HF_STATIC_TLS_OPTIONAL));
    for (size_t i = 0; i < HF_RULE_COUNT; i++)
        hf_words_add(words, "fails", fails[i] ? hf_rules[i].name : NULL);
    for (size_t i = 0; i < request->files.count; i++)
        hf_words_add(words, "file", request->files.values[i]);
    for (size_t i = 0; i < request->packages_count; i++)
        hf_words_add(words, "package", request->packages[i]);
}

/* Returns HF_EXIT_FAILED if that fails. */
static int become_python(struct request *request, const bool *fails)
{
    struct hf_keep keep = {.last = NULL};
    struct hf_words words = {.keep = &keep};
    /* What archives hold, for processes of this command under the same number. Not a closed stdin,
     * stdout or stderr. */
    const int created = memfd_create("homefree inspect", MFD_CLOEXEC);
    const int memory = created >= 0 ? fcntl(created, F_DUPFD, STDERR_FILENO + 1) : -1;
    if (memory < 0) {
        hf_command_complain(who, "cannot begin: %s", strerror(errno));
    } else {
        hf_words_add(&words, "memory", hf_keep_format(&keep, "%d", memory));
        request->python = hf_preload_python(request->python);
        request->require_homefree = request->require_homefree || request->look_for_linked;
        add_words(&words, request, fails);
        hf_python_become(who, "inspect", &words,
                         "give --json and shared objects alone, which need no Python");
    }
    if (memory >= 0)
        close(memory);
    hf_keep_release(&keep);
    return HF_EXIT_FAILED;
}

static int answer(const struct request *request, struct hf_inspected_wishes *wishes)
{
    if (request->root != NULL)
        wishes->root = open(request->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (request->root != NULL && wishes->root < 0) {
        hf_command_complain(who, "cannot open '%s': %s", request->root, strerror(errno));
        return HF_EXIT_FAILED;
    }
    const int status = hf_inspected_answer(wishes, (int)strtol(request->listed, NULL, 10));
    if (wishes->root >= 0)
        close(wishes->root);
    return status;
}

static int inspect(struct request *request)
{
    struct hf_inspected_wishes wishes = {
        .root = -1,
        .require_homefree = request->require_homefree || request->look_for_linked,
        .adoption = request->adoption,
        .without_use = request->environment,
    };
    bool fails[HF_RULE_COUNT];
    if (request->listed != NULL)
        return answer(request, &wishes);
    for (size_t i = 0; i < HF_RULE_COUNT; i++)
        fails[i] =
            request->fail_on ? request->fails[i] : hf_rules[i].severity >= HF_SEVERITY_WARNING;
    if (request->require_homefree)
        fails[HF_RULE_NOT_LINKED] = fails[HF_RULE_PAST_HOMEFREE] = true;
    return needs_python(request) ? become_python(request, fails)
                                 : hf_inspected_print(&wishes, request->files.values, fails);
}

int hf_command_inspect(int count, char **arguments)
{
    struct request request = {.json = false};
    request.packages = calloc((size_t)count, sizeof *request.packages);
    if (request.packages == NULL)
        return hf_command_out_of_memory(who);
    int result = hf_command_read(&command, &request, count, arguments, &request.files);
    if (result == HF_EXIT_NONE)
        result = check(&request);
    if (result == HF_EXIT_NONE)
        result =
            request.rules ? hf_rules_list(who, &hf_inspect_table, request.json) : inspect(&request);
    free(request.packages);
    return result;
}
