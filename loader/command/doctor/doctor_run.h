/*
 * Runs a program so that it leaves records of its processes (loader/doctor.h).
 *
 * Owns: the folder that the records are in, until hf_doctor_run_end(), and the dispositions of
 * signals while the program runs. One run at a time.
 */
#ifndef HF_LOADER_COMMAND_DOCTOR_RUN_H
#define HF_LOADER_COMMAND_DOCTOR_RUN_H

#include <stdbool.h>
#include <sys/types.h>

struct hf_doctor_run {
    char **command;        /* ends with NULL */
    const char *library;   /* libhomefree; NULL: the one installed with this command */
    bool start;            /* make the record at the program's start, not at its end */
    bool children;         /* every process makes one */
    bool stdout_is_stderr; /* the program's stdout goes to stderr */
    pid_t pid;             /* set by hf_doctor_run() */
    int status;            /* as waitpid(2) gives it */
    char *folder;          /* records are <folder>/<pid> */
};

/*
 * Runs the program and waits for its end. Ctrl-C is left to the program; SIGTERM and SIGHUP are
 * passed on to it. Result: HF_EXIT_CLEAN when it ran, however it ended; HF_EXIT_FAILED after a
 * complaint.
 */
int hf_doctor_run(const char *who, struct hf_doctor_run *run);

/* Names the Python that this command belongs to: the one that ran `python -m homefree`, the one
 * beside the command, the one that the package was installed for, or just "python3". */
void hf_doctor_run_python(char *out, size_t room);

/* Opens the record of a process. Result: a descriptor, or a negative errno. */
int hf_doctor_run_open(const struct hf_doctor_run *run, pid_t pid);

/* Explains in one line why the program left no record, as far as that shows from outside. */
const char *hf_doctor_run_why(const struct hf_doctor_run *run);

/* Removes the folder. */
void hf_doctor_run_end(struct hf_doctor_run *run);

#endif
