/*
 * command.h - what the subcommands of `homefree` share.
 *
 * Owns: the exit codes, the one shape of complaints, and the way results leave the process.
 * Shared by: main.c, which dispatches, and the file of each subcommand. To add a subcommand,
 * declare its function here, add it to main.c's table, and describe its options as arguments.h
 * says.
 *
 * Everything here runs between main() and exit(3), in one thread.
 */
#ifndef HF_LOADER_COMMAND_COMMAND_H
#define HF_LOADER_COMMAND_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The result of every subcommand, and the exit status of the process. */
enum hf_command_exit {
    HF_EXIT_NONE = -1,    /* go on; never the result of a subcommand */
    HF_EXIT_CLEAN = 0,    /* done, nothing found */
    HF_EXIT_FINDINGS = 1, /* done, and something is not as it should be */
    HF_EXIT_USAGE = 2,    /* the command line, or a file written for this command, is wrong */
    HF_EXIT_FAILED = 3,   /* it could not be done */
};

/*
 * A subcommand. `arguments` holds its name and the words that follow it on the command line, and
 * ends with NULL, as main()'s argv does. Result: an enum hf_command_exit.
 */
typedef int hf_command_run(int count, char **arguments);

hf_command_run hf_command_doctor;
hf_command_run hf_command_exports;
hf_command_run hf_command_inspect;

/*
 * Prints one line "<who>: <message>" on stderr. The message may hold names from outside: text.h
 * says what is printed in the place of bytes that would break the line or steer a terminal.
 */
__attribute__((format(printf, 2, 3))) void hf_command_complain(const char *who, const char *format,
                                                               ...);

/* Complains that memory ran out. Result: HF_EXIT_FAILED. */
int hf_command_out_of_memory(const char *who);

/*
 * Prints `text` on stdout and makes sure that it arrived. Result: HF_EXIT_CLEAN, or HF_EXIT_FAILED
 * after a complaint by `who`, for example when the device is full.
 */
int hf_command_print(const char *who, const char *text, size_t length);

/*
 * Puts `text` into the file at `path`; "-" is stdout. A regular file is replaced in one step and
 * keeps its permissions; it is not touched when it already holds the text, so that a build system
 * that compares times has nothing to do. A symbolic link keeps pointing to it. Devices and pipes
 * are written to.
 *
 * Result: HF_EXIT_CLEAN, or HF_EXIT_FAILED after a complaint by `who`, and the file is as it was.
 */
int hf_command_write(const char *who, const char *path, const char *text, size_t length);

/* Writes a result to a stream in memory, whose errors hf_command_compose() finds. Result: whether
 * it shall be shown. */
typedef bool hf_command_composer(FILE *out, void *context);

/*
 * Composes a result in memory and passes it to hf_command_write(): whatever fails half-way, nothing
 * is printed. Result: as there.
 */
int hf_command_compose(const char *who, const char *path, hf_command_composer *compose,
                       void *context);

#endif
