/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `homefree exports`: command line and files of the generator in version_script.h. Builds call it,
 * also where there is no Python. Object files are Python's (python/homefree/command/exports.py),
 * which comes back to this command with --found.
 *
 * Owns: the options and their order, and all error messages. The whole command line is parsed
 * before the first file is opened, and all input is read before the result is written. On any
 * error, nothing is written, and with --check never. One thread.
 */
#include "loader/command/exports/version_script.h"
#include "loader/command/program/python.h"
#include "loader/elf/elf_file.h"
#include "loader/inspect/module_functions.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char who[] = "homefree exports";

enum source { MODULE, OBJECTS, SYMBOLS, SYMBOL };
static const char *const source_options[] = {"module", "from-objects", "symbols", "found"};

struct request {
    struct {
        enum source source;
        const char *value;
    } * inputs; /* in the order of the command line */
    size_t count;
    const char *node;   /* NULL: anonymous */
    const char *output; /* "-": stdout */
    const char *check;  /* a linked module; NULL: write the script */
};

/* ---- the command line ----------------------------------------------------------------------- */

static int add_input(struct request *request, enum source source, const char *value)
{
    request->inputs[request->count].source = source;
    request->inputs[request->count].value = value;
    request->count++;
    return HF_EXIT_CLEAN;
}

static int take_module(void *request, const char *value)
{
    return add_input(request, MODULE, value);
}

static int take_objects(void *request, const char *value)
{
    return add_input(request, OBJECTS, value);
}

static int take_symbols(void *request, const char *value)
{
    return add_input(request, SYMBOLS, value);
}

static int take_symbol(void *request, const char *value)
{
    return add_input(request, SYMBOL, value);
}

static const struct hf_argument arguments_table[] = {
    {.name = "module",
     .value = "NAME...",
     .help = "export the functions that CPython calls in these\n"
             "modules; of a dotted name, the last component\n"
             "counts",
     .take = take_module,
     .several = true},
    {.name = "from-objects",
     .value = "OBJECT...",
     .help = "export every PyInit_ and PyModExport_ function that\n"
             "these objects, archives or shared objects define",
     .take = take_objects,
     .several = true},
    {.name = "symbols",
     .value = "FILE",
     .help = "export the symbols in FILE too, one per line;\n"
             "'#' begins a comment",
     .take = take_symbols},
    {.name = "found", .value = "NAME", .take = take_symbol}, /* what Python found in objects */
    HF_VALUE_ARGUMENT("version", node, "NODE", "give the exported symbols the version NODE"),
    HF_OUTPUT_ARGUMENT("write to FILE, which is not touched if nothing\n"
                       "changes; '-' is stdout, the default"),
    HF_VALUE_ARGUMENT("check", check, "FILE",
                      "write nothing; fail unless the linked module FILE\n"
                      "exports a function for each --module"),
    {.name = NULL},
};

static const struct hf_command command = {
    .who = who,
    .usage = "homefree exports --module NAME... [--from-objects OBJECT...] [--symbols FILE]\n"
             "                        [--version NODE] [-o FILE]\n"
             "       homefree exports --module NAME... --check FILE\n",
    .about = "Writes the linker's version script for an extension module. It exports the module's\n"
             "PyInit_ or PyModExport_ function, or both, and hides everything else.\n",
    .notes =
        "Exit status: 0 written or checked, 1 no function of a module or symbol found, 2 wrong\n"
        "usage, 3 failed.\n"
        "\n"
        "Example: homefree exports --module fast -o fast.map\n"
        "         c++ -shared ... -Wl,--version-script=fast.map\n",
    .arguments = arguments_table,
    .operands = HF_OPERANDS_LISTED,
};

/* Checks everything that can be checked before a file is opened. */
static int check_request(const struct request *request)
{
    if (request->count == 0)
        return hf_command_wrong(who, "give at least one of --module, --from-objects and --symbols");
    for (size_t i = 0; i < request->count; i++) {
        if (request->inputs[i].source != MODULE) {
            if (request->check != NULL)
                return hf_command_wrong(who, "--check goes with --module alone");
            continue;
        }
        const char *name = request->inputs[i].value;
        const char *fault = hf_exports_module_fault(name);
        if (fault != NULL) {
            hf_command_complain(who, "'%s' is not a Python module name: %s", name, fault);
            return HF_EXIT_USAGE;
        }
    }
    if (request->node != NULL) {
        const char *fault = hf_exports_node_fault(request->node);
        if (fault != NULL) {
            hf_command_complain(who, "'%s' is not a version node: %s", request->node, fault);
            return HF_EXIT_USAGE;
        }
    }
    return HF_EXIT_CLEAN;
}

/* ---- the input ------------------------------------------------------------------------------ */

/* Cuts off the comment and surrounding blanks. Returns the start of the symbol. */
static char *trim(char *line)
{
    static const char blanks[] = " \t\r\n\f\v";
    line[strcspn(line, "#")] = '\0';
    line += strspn(line, blanks);
    size_t length = strlen(line);
    while (length > 0 && strchr(blanks, line[length - 1]) != NULL)
        line[--length] = '\0';
    return line;
}

static int add_line(struct hf_exports *list, const char *path, size_t number, char *line,
                    size_t length)
{
    const char *fault = NULL;
    const char *symbol = line;
    if (memchr(line, '\0', length) != NULL) {
        fault = "the line holds a NUL byte; write one symbol a line, as text";
    } else {
        symbol = trim(line);
        if (symbol[0] == '\0')
            return HF_EXIT_CLEAN;
        fault = hf_exports_symbol_fault(symbol);
    }
    if (fault != NULL) {
        hf_command_complain(who, "%s:%zu: '%s' cannot be exported: %s", path, number, symbol,
                            fault);
        return HF_EXIT_USAGE;
    }
    hf_exports_add_symbol(list, symbol);
    return HF_EXIT_CLEAN;
}

static int read_symbols(struct hf_exports *list, const char *path)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        hf_command_complain(who, "cannot read '%s': %s", path, strerror(errno));
        return HF_EXIT_FAILED;
    }
    int result = HF_EXIT_CLEAN;
    char *line = NULL;
    size_t size = 0;
    size_t number = 0;
    ssize_t length = 0;
    while (result == HF_EXIT_CLEAN && (errno = 0, length = getline(&line, &size, file)) >= 0)
        result = add_line(list, path, ++number, line, (size_t)length);
    if (result == HF_EXIT_CLEAN && !feof(file)) {
        hf_command_complain(who, "cannot read '%s': %s", path, strerror(errno));
        result = HF_EXIT_FAILED;
    }
    free(line);
    fclose(file);
    return result;
}

/* Returns HF_EXIT_CLEAN, or another status after an error message. */
static int collect_from(struct hf_exports *list, enum source source, const char *value)
{
    if (source == SYMBOLS)
        return read_symbols(list, value);
    const char *fault = source == SYMBOL ? hf_exports_symbol_fault(value) : NULL;
    if (fault != NULL)
        return hf_command_wrong(who, "'%s' cannot be exported: %s", value, fault);
    if (source == SYMBOL)
        hf_exports_add_symbol(list, value);
    else
        hf_exports_add_module(list, value);
    return HF_EXIT_CLEAN;
}

static int collect(struct hf_exports *list, const struct request *request)
{
    int result = HF_EXIT_CLEAN;
    for (size_t i = 0; i < request->count && result == HF_EXIT_CLEAN; i++)
        result = collect_from(list, request->inputs[i].source, request->inputs[i].value);
    if (result == HF_EXIT_CLEAN && list->count == 0) {
        hf_command_complain(who,
                            "there is nothing to export: the file of --symbols lists no symbol");
        result = HF_EXIT_FINDINGS;
    }
    return result;
}

/* ---- objects -------------------------------------------------------------------------------- */

static bool asks_for_objects(const struct request *request)
{
    for (size_t i = 0; i < request->count; i++)
        if (request->inputs[i].source == OBJECTS)
            return true;
    return false;
}

/* Python gets this command line, and replaces the objects by the symbols in them. Returns
 * HF_EXIT_FAILED if that fails. */
static int become_python(const struct request *request)
{
    struct hf_keep keep = {.last = NULL};
    struct hf_words words = {.keep = &keep};
    for (size_t i = 0; i < request->count; i++)
        hf_words_add(&words, source_options[request->inputs[i].source], request->inputs[i].value);
    hf_words_add_options(&words, arguments_table, request);
    hf_python_become(who, "exports", &words, "give --module NAME, which needs no Python");
    hf_keep_release(&keep);
    return HF_EXIT_FAILED;
}

/* ---- the command ---------------------------------------------------------------------------- */

struct script {
    const struct hf_exports *list;
    const char *node;
};

static bool compose(FILE *out, void *context)
{
    const struct script *script = context;
    hf_exports_script(script->list, script->node, out);
    return true;
}

static int write_script(const struct request *request)
{
    struct hf_keep keep = {.last = NULL};
    struct hf_exports list;
    struct script script = {&list, request->node};
    hf_exports_begin(&list, &keep);
    int result = collect(&list, request);
    if (result == HF_EXIT_CLEAN)
        result = hf_command_compose(who, request->output, compose, &script);
    hf_keep_release(&keep);
    return result;
}

/* ---- the check ------------------------------------------------------------------------------ */

struct wanted {
    const char *rest; /* of the name of each function that would do */
    bool found;
};

static bool look_for(const struct hf_elf_symbol *symbol, void *context)
{
    struct wanted *wanted = context;
    const char *rest = "";
    if (symbol->defined && symbol->binding != STB_LOCAL &&
        hf_module_function_of(symbol->name, &rest) != HF_MODULE_FUNCTION_NONE &&
        strcmp(rest, wanted->rest) == 0)
        wanted->found = true;
    return !wanted->found;
}

/* The reader explains what is wrong with a file's contents, the system why it cannot be read. */
static int unreadable(const char *path, const struct hf_elf *elf, int result)
{
    const bool readers = result == -ENOEXEC || result == -ENOTSUP || result == -EFBIG;
    hf_command_complain(who, "'%s' cannot be read: %s", path,
                        readers ? elf->why : strerror(-result));
    return HF_EXIT_FAILED;
}

/* Whether a linked module exports a function by which CPython enters the module `name`. */
static int check_name(struct hf_elf *elf, const char *path, const char *name)
{
    char rest[HF_EXPORTS_REST_SIZE];
    hf_exports_module_rest(name, rest);
    struct wanted wanted = {.rest = rest};
    const int result = hf_elf_symbols(elf, HF_ELF_DYNSYM, look_for, &wanted);
    if (result != 0 && result != -ENOENT)
        return unreadable(path, elf, result);
    if (wanted.found)
        return HF_EXIT_CLEAN;
    hf_command_complain(who,
                        "'%s' defines no %s%s and no %s%s, so Python cannot import it: give the "
                        "build the name of the module that the source has",
                        path, hf_module_functions[HF_MODULE_FUNCTION_INIT].name, rest,
                        hf_module_functions[HF_MODULE_FUNCTION_EXPORT].name, rest);
    return HF_EXIT_FINDINGS;
}

/* With --check, all inputs are modules. */
static int check_modules(const struct request *request)
{
    struct hf_elf elf;
    const int opened = hf_elf_open(&elf, request->check);
    int result = opened == 0 ? HF_EXIT_CLEAN : unreadable(request->check, &elf, opened);
    for (size_t i = 0; i < request->count && result == HF_EXIT_CLEAN; i++)
        result = check_name(&elf, request->check, request->inputs[i].value);
    hf_elf_close(&elf);
    return result;
}

int hf_command_exports(int count, char **arguments)
{
    struct request request = {.output = "-"};
    request.inputs = calloc((size_t)count, sizeof *request.inputs);
    if (request.inputs == NULL)
        return hf_command_out_of_memory(who);

    struct hf_operand_list none;
    int result = hf_command_read(&command, &request, count, arguments, &none);
    if (result == HF_EXIT_NONE && (result = check_request(&request)) == HF_EXIT_CLEAN)
        result = request.check != NULL        ? check_modules(&request)
                 : asks_for_objects(&request) ? become_python(&request)
                                              : write_script(&request);
    free(request.inputs);
    return result;
}
