/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A running process as /proc shows it: its mappings, the files behind them, its environment and its
 * memory. For `homefree doctor --pid`, `homefree report --pid` and `homefree trim --pid`.
 *
 * Constraint: nothing runs in the process, nothing stops it, and nothing is written to it, but by
 * hf_live_write(). It is
 * hostile, it may change while it is looked at, and it may end at any moment. Everything that is
 * read is bounded and checked; what cannot be read is unknown.
 *
 * The number of a process may be given to another one. So /proc/PID is opened once, and everything
 * else is opened below that directory, which the kernel never gives to another process; the memory
 * is that of the program that ran when it was opened, and cannot be read after execve(2).
 *
 * Mappings, environment and root need the permission to examine the process (the same user, or
 * CAP_SYS_PTRACE; a process that may not be dumped is protected). Its memory also needs what a
 * debugger needs: Yama's ptrace_scope may forbid it.
 *
 * Owns: the descriptors and the mappings' texts, until hf_live_close(). One thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_LIVE_LIVE_PROCESS_H
#define HOMEFREE_LOADER_COMMAND_LIVE_LIVE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct hf_live_mapping {
    uint64_t start, end, offset;
    uint64_t device, inode; /* as stat(2) says; 0: no file */
    bool writable, executable, shared;
    bool deleted;     /* the file has no name any more */
    const char *path; /* without " (deleted)"; "" where there is none, "[heap]" and its kind */
};

struct hf_live_process {
    pid_t pid;
    int directory;                    /* /proc/PID */
    int root;                         /* its root directory, or -1 */
    bool root_is_ours;                /* the same directory as this command's */
    int memory;                       /* -1: it cannot be read */
    const char *unreadable;           /* why the memory cannot be read, or NULL */
    struct hf_live_mapping *mappings; /* by address */
    size_t mappings_count;
    int64_t deadline; /* private */
    char *maps;       /* private */
};

/*
 * Opens the process that an option names. Returns HF_EXIT_NONE, or an exit status after one line by
 * `who`: HF_EXIT_USAGE if the text is no process number, HF_EXIT_FAILED if there is no such
 * process, if it has no memory (it has ended, or belongs to the kernel), or if it may not be
 * examined. hf_live_close() is required after success and harmless after failure.
 */
int hf_live_open(const char *who, const char *text, struct hf_live_process *out);

void hf_live_close(struct hf_live_process *process);

/* Reads exactly `size` bytes; false where one of them cannot be read. */
bool hf_live_read(const struct hf_live_process *process, uint64_t address, void *buffer,
                  size_t size);

/* Opens the memory anew, also for writing: before anything is read of it, because the process may
 * execute another program at any time. False with errno set. */
bool hf_live_allow_writes(struct hf_live_process *process);

/* Writes into memory of the process's own that it may write to itself. */
bool hf_live_write(const struct hf_live_process *process, uint64_t address, const void *buffer,
                   size_t size);

/* Reads a string that ends with 0, at most `capacity` bytes with it. False if it is longer. */
bool hf_live_read_string(const struct hf_live_process *process, uint64_t address, char *buffer,
                         size_t capacity);

/* Opens the file behind a mapping: a regular file, and the very one, as far as that can be told.
 * Returns a descriptor or a negative errno. */
int hf_live_open_file(const struct hf_live_process *process, const struct hf_live_mapping *mapping);

/* Opens a regular file by the path that the process knows it by. Returns a descriptor or a negative
 * errno. */
int hf_live_open_path(const struct hf_live_process *process, const char *path);

/* Copies the value of a variable of its environment, as it was when the program started. False if
 * there is none, or if it is longer. */
bool hf_live_variable(const struct hf_live_process *process, const char *name, char *out,
                      size_t capacity);

/* Whether this has taken too long since hf_live_open(): a process can show any number of files of
 * any size. What is left is then unknown. */
bool hf_live_takes_too_long(const struct hf_live_process *process);

/* Whether the process still runs the program that was looked at; it may have ended meanwhile. */
bool hf_live_runs(const struct hf_live_process *process);

#endif
