/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See arguments.h. Owns nothing; one thread.
 */
#include "loader/command/arguments.h"

#include "loader/command/suggest.h"
#include "loader/command/text.h"

#include <assert.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct hf_argument help_argument = {
    .name = "help", .letter = 'h', .help = "print this help"};

/* ---- complaints ----------------------------------------------------------------------------- */

int hf_command_wrong(const char *who, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *message = hf_text_format(format, arguments);
    va_end(arguments);
    if (message == NULL)
        return hf_command_out_of_memory(who);
    hf_command_complain(who, "%s; see '%s --help'", message, who);
    free(message);
    return HF_EXIT_USAGE;
}

static const char *name_at(size_t index, const void *context)
{
    const struct hf_command *command = context;
    for (size_t i = 0; i <= index; i++)
        if (command->arguments[i].name == NULL)
            return i == index ? help_argument.name : NULL;
    return command->arguments[index].name;
}

static int unknown_option(const struct hf_command *command, const char *option)
{
    const size_t length = strcspn(option, "=");
    char *name = strncmp(option, "--", 2) == 0 ? strndup(option + 2, length - 2) : NULL;
    const char *near = name != NULL ? hf_suggest(name, name_at, command) : NULL;
    /* The option itself: it was written with a value that it does not take. */
    if (near != NULL && strcmp(near, name) == 0)
        near = NULL;
    free(name);
    return hf_command_wrong(command->who, "unknown option '%s'%s%s%s", option,
                            near != NULL ? " (did you mean '--" : "", near != NULL ? near : "",
                            near != NULL ? "'?)" : "");
}

/* Complains about the option at which getopt_long(3) stopped; `found` is what it returned. */
static int bad_option(const struct hf_command *command, int found, char **arguments)
{
    const char *who = command->who;
    /* getopt_long has moved past a long option, but perhaps not past a group of short ones. */
    const char *last = arguments[optind - 1];
    if (found == ':')
        return hf_command_wrong(who, "option '%s' needs a value", last);
    if (optopt != 0 && strncmp(last, "--", 2) != 0)
        return hf_command_wrong(who, "unknown option '-%c'", optopt);
    return unknown_option(command, last);
}

static int unlisted(const struct hf_command *command, const char *operand)
{
    char lists[128] = "";
    for (const struct hf_argument *at = command->arguments; at->name != NULL; at++)
        if (at->several) {
            const size_t used = strlen(lists);
            snprintf(lists + used, sizeof lists - used, "%s--%s", used > 0 ? " or " : "", at->name);
        }
    return hf_command_wrong(command->who, "'%s' follows no %s", operand, lists);
}

/* ---- help ----------------------------------------------------------------------------------- */

/* Prints the left column of the help. Returns its width. */
static int print_left(FILE *out, const struct hf_argument *argument)
{
    int width = fprintf(out, "  ");
    if (argument->letter != 0)
        width += fprintf(out, "-%c, ", argument->letter);
    width += fprintf(out, "--%s", argument->name);
    if (argument->value != NULL)
        width += fprintf(out, argument->optional ? "[=%s]" : " %s", argument->value);
    return width;
}

static int left_width(const struct hf_argument *argument)
{
    return 4 + (argument->letter != 0 ? 4 : 0) + (int)strlen(argument->name) +
           (argument->value != NULL ? (argument->optional ? 3 : 1) + (int)strlen(argument->value)
                                    : 0);
}

static void print_argument(FILE *out, const struct hf_argument *argument, int column)
{
    int width = print_left(out, argument);
    for (const char *line = argument->help; line != NULL;) {
        const size_t length = strcspn(line, "\n");
        fprintf(out, "%*s%.*s\n", column - width, "", (int)length, line);
        line = line[length] != '\0' ? line + length + 1 : NULL;
        width = 0;
    }
}

static bool print_help(FILE *out, void *context)
{
    const struct hf_command *command = *(const struct hf_command **)context;
    int widest = left_width(&help_argument);
    for (const struct hf_argument *at = command->arguments; at->name != NULL; at++)
        widest = left_width(at) > widest ? left_width(at) : widest;
    fprintf(out, "Usage: %s\n%s\n", command->usage, command->about);
    for (const struct hf_argument *at = command->arguments; at->name != NULL; at++)
        if (at->help != NULL)
            print_argument(out, at, widest + 2);
    print_argument(out, &help_argument, widest + 2);
    if (command->table != NULL) {
        fputc('\n', out);
        command->table(out);
    }
    fprintf(out, "\n%s", command->notes);
    return true;
}

/* ---- reading -------------------------------------------------------------------------------- */

enum { LONG_OPTION = 256 }; /* plus the row's number: outside the range of characters */

/* Converts the table to the form of getopt_long(3). `letters` begins with the mode for operands. */
static void prepare(const struct hf_command *command, struct option *options, char *letters)
{
    static const char *const modes[] = {
        [HF_OPERANDS_ANYWHERE] = "", [HF_OPERANDS_LAST] = "+", [HF_OPERANDS_LISTED] = "-"};
    size_t count = 0;
    /* The ':' makes getopt return ':' for a missing value and print nothing. */
    letters += sprintf(letters, "%s:h", modes[command->operands]);
    for (const struct hf_argument *at = command->arguments; at->name != NULL; at++, count++) {
        assert(count < HF_ARGUMENTS_MAX);
        options[count] = (struct option){
            .name = at->name,
            .has_arg = at->value == NULL ? no_argument
                       : at->optional    ? optional_argument
                                         : required_argument,
            .val = LONG_OPTION + (int)count,
        };
        if (at->letter != 0)
            letters += sprintf(letters, "%c%s", at->letter, at->value != NULL ? ":" : "");
    }
    options[count] = (struct option){.name = help_argument.name, .val = help_argument.letter};
    options[count + 1] = (struct option){.name = NULL};
}

static const struct hf_argument *find(const struct hf_command *command, int found)
{
    if (found >= LONG_OPTION)
        return &command->arguments[found - LONG_OPTION];
    for (const struct hf_argument *at = command->arguments; at->name != NULL; at++)
        if (at->letter != 0 && at->letter == found)
            return at;
    return NULL;
}

static int take(const struct hf_argument *argument, void *request, const char *value)
{
    if (argument->take != NULL)
        return argument->take(request, value);
    void *place = (char *)request + argument->offset;
    if (argument->value != NULL)
        memcpy(place, &value, sizeof value);
    else
        *(bool *)place = true;
    return HF_EXIT_CLEAN;
}

/* `list` is the option before the operand, or NULL. */
static int take_operand(const struct hf_command *command, const struct hf_argument *list,
                        void *request, const char *value)
{
    return list != NULL && list->several ? take(list, request, value) : unlisted(command, value);
}

int hf_command_read(const struct hf_command *command, void *request, int count, char **arguments,
                    struct hf_operand_list *operands)
{
    enum { OPERAND = 1 }; /* getopt_long(3) returns this for an operand in its place */
    struct option options[HF_ARGUMENTS_MAX + 2];
    char letters[2 * HF_ARGUMENTS_MAX + 4];
    const struct hf_argument *last = NULL;
    int result = HF_EXIT_CLEAN, found;

    prepare(command, options, letters);
    optind = 0; /* main.c passed on a part of argv: reset getopt */
    opterr = 0;
    while (result == HF_EXIT_CLEAN &&
           (found = getopt_long(count, arguments, letters, options, NULL)) != -1) {
        if (found == help_argument.letter)
            return hf_command_compose(command->who, "-", print_help, &command);
        if (found == OPERAND) {
            result = take_operand(command, last, request, optarg);
            continue;
        }
        last = find(command, found);
        result = last != NULL ? take(last, request, optarg) : bad_option(command, found, arguments);
    }
    *operands = (struct hf_operand_list){
        .separated = optind > 1 && strcmp(arguments[optind - 1], "--") == 0,
        .values = arguments + optind,
        .count = (size_t)(count - optind),
    };
    for (;
         result == HF_EXIT_CLEAN && command->operands == HF_OPERANDS_LISTED && operands->count > 0;
         operands->count--) /* after "--" */
        result = take_operand(command, last, request, *operands->values++);
    return result == HF_EXIT_CLEAN ? HF_EXIT_NONE : result;
}
