/*
 * Running a program so that it leaves records of its processes (loader/doctor.h).
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
    const char *library;   /* libhomefree, or NULL: the one that belongs to this command */
    bool start;            /* the record is made when the program has started, not at its end */
    bool children;         /* every process leaves one */
    bool stdout_is_stderr; /* the program's stdout goes to stderr */
    pid_t pid;             /* set by hf_doctor_run() */
    int status;            /* as waitpid(2) gives it */
    char *folder;          /* records are <folder>/<pid> */
};

/*
 * Runs the program and waits for its end. Ctrl-C is the program's; SIGTERM and SIGHUP are handed on
 * to it. Result: HF_EXIT_CLEAN when it ran, however it ended; HF_EXIT_FAILED after a complaint.
 */
int hf_doctor_run(const char *who, struct hf_doctor_run *run);

/* The Python that this command belongs to: what `python -m homefree` names, what lies beside the
 * command, what the package was installed for; or just "python3". */
void hf_doctor_run_python(char *out, size_t room);

/* Opens the record of a process. Result: a descriptor, or a negative errno. */
int hf_doctor_run_open(const struct hf_doctor_run *run, pid_t pid);

/* Why the program left no record, as far as can be told from outside; one line. */
const char *hf_doctor_run_why(const struct hf_doctor_run *run);

/* Removes the folder. */
void hf_doctor_run_end(struct hf_doctor_run *run);

#endif
