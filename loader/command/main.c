/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The command `homefree`: finds the subcommand and runs it.
 *
 * Owns: the table of subcommands, used for dispatch and help. command.h and arguments.h contain
 * what subcommands share. homefree's heap is not in this process: the command must also work where
 * the heap does not. One thread.
 */
#include "loader/command/command.h"
#include "loader/command/program/python.h"
#include "loader/command/rules.h"
#include "loader/command/suggest.h"

#include <homefree/homefree.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char who[] = "homefree";

static const struct {
    const char *name;
    hf_command_run *run;
    const char *summary;
} commands[] = {
    {"doctor", hf_command_doctor, "show the allocators in a process and who uses which"},
    {"exports", hf_command_exports, "write a version script that hides all but what Python calls"},
    {"inspect", hf_command_inspect, "show what shared objects would do to a process"},
    {"memory", hf_command_memory, "show whose a process's resident memory is"},
    {"report", hf_command_report, "show what a diagnosed process recorded"},
    {"run", hf_command_run_program, "run a program with the whole process on the heap"},
    {"test", hf_command_test, "prove that an extension module's memory crashes no host"},
    {"trim", hf_command_trim, "make a running process give back the memory that it does not use"},
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static bool compose_help(FILE *out, void *context)
{
    (void)context;
    fputs("Usage: homefree COMMAND [ARGUMENT]...\n"
          "       homefree help [COMMAND]\n"
          "       homefree --help | --version\n"
          "\n"
          "Allocate anywhere, free anywhere: every free goes home to the owner of the pointer.\n"
          "\n"
          "Commands:\n",
          out);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fputs("\n"
          "'homefree COMMAND --help' describes a command.\n"
          "\n"
          "Exit status: 0 clean, 1 findings, 2 wrong usage, 3 failed.\n",
          out);
    return true;
}

static int print_help(void)
{
    return hf_command_compose(who, "-", compose_help, NULL);
}

static int print_version(void)
{
    static const char version[] = "homefree " HF_VERSION "\n";
    return hf_command_print(who, version, sizeof version - 1);
}

/* What may stand in place of a command. */
static const char *word_at(size_t index, const void *context)
{
    static const char *const others[] = {"help", "--help", "--version"};
    (void)context;
    if (index < COMMAND_COUNT)
        return commands[index].name;
    index -= COMMAND_COUNT;
    return index < sizeof others / sizeof others[0] ? others[index] : NULL;
}

static int unknown(const char *word)
{
    const char *near = hf_suggest(word, word_at, NULL);
    hf_command_complain(who, "unknown %s '%s'%s%s%s; see 'homefree --help'",
                        word[0] == '-' ? "option" : "command", word,
                        near != NULL ? " (did you mean '" : "", near != NULL ? near : "",
                        near != NULL ? "'?)" : "");
    return HF_EXIT_USAGE;
}

static int run(int count, char **arguments)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(arguments[0], commands[i].name) == 0)
            return commands[i].run(count, arguments);
    return unknown(arguments[0]);
}

static bool asks_for_help(const char *word)
{
    return strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* `homefree help COMMAND` is `homefree COMMAND --help`. */
static int help(int count, char **arguments)
{
    static char option[] = "--help";
    if (count == 0 || asks_for_help(arguments[0]))
        return print_help();
    char *line[] = {arguments[0], option, NULL};
    return run(2, line);
}

int main(int count, char **arguments)
{
    if (count < 2)
        return print_help();

    const char *wanted = arguments[1];
    if (strcmp(wanted, "--version") == 0 || strcmp(wanted, "-V") == 0)
        return print_version();
    if (asks_for_help(wanted))
        return help(count - 2, arguments + 2);
    char *page = hf_python_file("findings.html");
    hf_rules_set_page(page);
    const int status = run(count - 1, arguments + 1);
    free(page);
    return status;
}
