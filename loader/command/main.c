/*
 * The command `homefree`: finds the subcommand and runs it.
 *
 * Owns: the table of subcommands, used for dispatch and help. command.h and arguments.h contain
 * what subcommands share. homefree's heap is not in this process: the command must also work where
 * the heap does not. One thread.
 */
#include "loader/command/command.h"

#include <homefree/homefree.h>

#include <stdio.h>
#include <string.h>

static const char who[] = "homefree";

static const struct {
    const char *name;
    hf_command_run *run;
    const char *summary;
} commands[] = {
    {"doctor", hf_command_doctor, "show the allocators in a process and who uses which"},
    {"exports", hf_command_exports, "write a version script that hides all but PyInit_"},
    {"inspect", hf_command_inspect, "show what shared objects would do to a process"},
    {"report", hf_command_report, "show what a diagnosed process recorded"},
    {"run", hf_command_run_program, "run a program with the whole process on the heap"},
    {"test", hf_command_test, "prove that an extension module's memory crashes no host"},
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static bool compose_help(FILE *out, void *context)
{
    (void)context;
    fputs("Usage: homefree COMMAND [ARGUMENT]...\n"
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

    hf_command_complain(who, "unknown %s '%s'; see 'homefree --help'",
                        wanted[0] == '-' ? "option" : "command", wanted);
    return HF_EXIT_USAGE;
}
