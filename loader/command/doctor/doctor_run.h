/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs a program so that its processes write records (loader/record/process_record.h).
 *
 * Owns: the directory with the records, until hf_doctor_run_end(), and the signal dispositions
 * while the program runs. One run at a time, in one thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_DOCTOR_DOCTOR_RUN_H
#define HOMEFREE_LOADER_COMMAND_DOCTOR_DOCTOR_RUN_H

#include <stdbool.h>
#include <sys/types.h>

struct hf_doctor_run {
    char **command;        /* ends with NULL */
    const char *library;   /* libhomefree; NULL: the one installed with this command */
    bool start;            /* record the program's start, not its end */
    bool children;         /* every process writes a record */
    bool stdout_is_stderr; /* the program's stdout goes to stderr */
    pid_t pid;             /* set by hf_doctor_run() */
    int status;            /* as returned by waitpid(2) */
    char *directory;       /* records are <directory>/<pid> */
};

/*
 * Runs the program and waits for its end. The program handles Ctrl-C; SIGTERM and SIGHUP are
 * forwarded to it. Returns HF_EXIT_CLEAN if it ran, however it ended, or HF_EXIT_FAILED after an
 * error message.
 */
int hf_doctor_run(const char *who, struct hf_doctor_run *run);

/* Opens a process's record. Returns a descriptor, or a negative errno. */
int hf_doctor_run_open(const struct hf_doctor_run *run, pid_t pid);

/* Explains in one line why the program wrote no record, as far as that can be told from outside.
 * The text stays valid until the next call. */
const char *hf_doctor_run_why(const struct hf_doctor_run *run);

/* Removes the directory with the records. */
void hf_doctor_run_end(struct hf_doctor_run *run);

#endif
