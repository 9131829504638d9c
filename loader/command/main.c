/*
 * main.c - the command `homefree`: finds the subcommand and runs it.
 *
 * Owns: the table of subcommands, from which dispatch and help are made. What subcommands share is
 * in command.h. homefree's heap is not in this process: the command must also work where the heap
 * does not.
 */
#include "command.h"

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
    {"exports", hf_command_exports, "write the version script that hides all but PyInit_"},
    {"inspect", hf_command_inspect, "what shared objects would do to the process that loads them"},
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static int print_help(void)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL) {
        hf_command_complain(who, "out of memory");
        return HF_EXIT_FAILED;
    }
    fputs("Usage: homefree COMMAND [ARGUMENT]...\n"
          "       homefree --help | --version\n"
          "\n"
          "Allocate anywhere, free anywhere: every pointer's free goes home to its owner.\n"
          "\n"
          "Commands:\n",
          out);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fputs("\n"
          "'homefree COMMAND --help' tells more about a command.\n"
          "\n"
          "Exit status: 0 clean, 1 findings, 2 wrong usage, 3 could not do it.\n",
          out);
    if (fclose(out) != 0) {
        hf_command_complain(who, "out of memory");
        free(text);
        return HF_EXIT_FAILED;
    }
    const int result = hf_command_print(who, text, length);
    free(text);
    return result;
}

int main(int count, char **arguments)
{
    if (count < 2)
        return print_help();

    const char *wanted = arguments[1];
    if (strcmp(wanted, "--help") == 0 || strcmp(wanted, "-h") == 0)
        return print_help();
    if (strcmp(wanted, "--version") == 0) {
        static const char version[] = "homefree " HF_VERSION "\n";
        return hf_command_print(who, version, sizeof version - 1);
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(wanted, commands[i].name) == 0)
            return commands[i].run(count - 1, arguments + 1);

    hf_command_complain(who, "unknown %s '%s'; 'homefree --help' lists the commands",
                        wanted[0] == '-' ? "option" : "command", wanted);
    return HF_EXIT_USAGE;
}
