/*
 * command.h - what the subcommands of `homefree` share.
 *
 * Owns: the exit codes, the one shape of complaints, and how results leave the process.
 * Shared by: main.c (dispatch) and one file for each subcommand. To add a subcommand: declare its
 * function here and give it a line in main.c's table.
 *
 * Everything here runs between main() and exit(3), in one thread.
 */
#ifndef HF_LOADER_COMMAND_COMMAND_H
#define HF_LOADER_COMMAND_COMMAND_H

#include <stddef.h>

/* What every subcommand returns, and the process exits with. */
enum hf_command_exit {
    HF_EXIT_CLEAN = 0,    /* done, nothing to report */
    HF_EXIT_FINDINGS = 1, /* done, and what was found is not as it should be */
    HF_EXIT_USAGE = 2,    /* the command line, or a file written for this command, is wrong */
    HF_EXIT_FAILED = 3,   /* could not do it */
};

/*
 * A subcommand. `arguments` holds its name first, then what followed it on the command line, and
 * ends with NULL, as main()'s argv does. Result: an enum hf_command_exit.
 */
typedef int hf_command_run(int count, char **arguments);

hf_command_run hf_command_doctor;
hf_command_run hf_command_exports;
hf_command_run hf_command_inspect;

/*
 * Prints one line "<who>: <message>" on stderr. Control characters in the message, which names from
 * outside may hold, are printed as '?', so that it stays one line and cannot steer a terminal.
 */
__attribute__((format(printf, 2, 3))) void hf_command_complain(const char *who, const char *format,
                                                               ...);

/* Complains that memory ran out. Result: HF_EXIT_FAILED. */
int hf_command_out_of_memory(const char *who);

/*
 * Complains about the option at which getopt_long(3) stopped: `option` is what it returned, ':' for
 * a value that is missing (with a list of options that begins with one). Result: HF_EXIT_USAGE.
 */
int hf_command_bad_option(const char *who, int option, char **arguments);

/*
 * Prints `text` on stdout and makes sure that it got there. Result: HF_EXIT_CLEAN; HF_EXIT_FAILED
 * after a complaint by `who`, for example on a full device.
 */
int hf_command_print(const char *who, const char *text, size_t length);

/*
 * Puts `text` into the file at `path`; "-" is stdout. A regular file is replaced in one step, with
 * the permissions that it had, and is left as it is when it already holds the text: a build system
 * that looks at its time then has nothing to do. A symbolic link keeps pointing to it. Anything
 * else (a device, a pipe) is written to.
 *
 * Result: HF_EXIT_CLEAN; HF_EXIT_FAILED after a complaint by `who`, and the file is as it was.
 */
int hf_command_write(const char *who, const char *path, const char *text, size_t length);

#endif
