/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the subcommands of `homefree`.
 *
 * Owns: the exit codes, the form of error messages, and the way results leave the process. Used by:
 * main.c, which dispatches, and the file of each subcommand. To add a subcommand, declare its
 * function here, add it to main.c's table, and describe its options as arguments.h explains.
 *
 * Everything here runs between main() and exit(3), in one thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_COMMAND_H
#define HOMEFREE_LOADER_COMMAND_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The result of every subcommand, and the exit status of the process. */
enum hf_command_exit {
    HF_EXIT_NONE = -1,    /* continue; never the result of a subcommand */
    HF_EXIT_CLEAN = 0,    /* done, nothing found */
    HF_EXIT_FINDINGS = 1, /* done, and something is wrong */
    HF_EXIT_USAGE = 2,    /* the command line or an input file is wrong */
    HF_EXIT_FAILED = 3,   /* the subcommand failed */
};

/*
 * A subcommand. `arguments` holds its name and the arguments after it, and ends with NULL, like
 * main()'s argv. Returns an enum hf_command_exit.
 */
typedef int hf_command_run(int count, char **arguments);

hf_command_run hf_command_doctor;
hf_command_run hf_command_exports;
hf_command_run hf_command_inspect;
hf_command_run hf_command_memory;
hf_command_run hf_command_report;
hf_command_run hf_command_run_program;
hf_command_run hf_command_test;
hf_command_run hf_command_trim;

/*
 * Prints one line "<who>: <message>" on stderr. The message may contain names from outside; text.h
 * explains what replaces bytes that would break the line or control a terminal.
 */
__attribute__((format(printf, 2, 3))) void hf_command_complain(const char *who, const char *format,
                                                               ...);

/* Reports that memory ran out. Returns HF_EXIT_FAILED. */
int hf_command_out_of_memory(const char *who);

/*
 * Prints `text` on stdout and checks that it was written. Returns HF_EXIT_CLEAN, or HF_EXIT_FAILED
 * after an error message by `who`, for example if the device is full.
 */
int hf_command_print(const char *who, const char *text, size_t length);

/*
 * Writes `text` to the file at `path`; "-" is stdout. A regular file is replaced atomically and
 * keeps its permissions. It is not touched if it already holds the text, so that a build system
 * that compares times has nothing to do. A symbolic link keeps pointing to the file. Devices and
 * pipes are written to.
 *
 * Returns HF_EXIT_CLEAN, or HF_EXIT_FAILED after an error message by `who`; the file is then
 * unchanged.
 */
int hf_command_write(const char *who, const char *path, const char *text, size_t length);

/* Writes a result to a stream in memory, whose errors hf_command_compose() checks. Returns whether
 * the result should be shown. */
typedef bool hf_command_composer(FILE *out, void *context);

/*
 * Composes a result in memory and passes it to hf_command_write(), so that nothing is printed if
 * composing fails. Returns the same as hf_command_write().
 */
int hf_command_compose(const char *who, const char *path, hf_command_composer *compose,
                       void *context);

#endif
