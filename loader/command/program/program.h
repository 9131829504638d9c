/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a command would execute, and whether a library can be preloaded into it. Looks at files and
 * runs nothing. No state. One thread.
 *
 * Every file is hostile: scripts that name each other, damaged programs, FIFOs and devices in their
 * place. None of them makes this wait, and interpreters are followed a bounded number of times.
 */
#ifndef HOMEFREE_LOADER_COMMAND_PROGRAM_PROGRAM_H
#define HOMEFREE_LOADER_COMMAND_PROGRAM_PROGRAM_H

#include <limits.h>
#include <stdbool.h>

enum hf_program_verdict {
    HF_PROGRAM_FITS,
    HF_PROGRAM_UNFIT,  /* it may run, but nothing can be preloaded into it */
    HF_PROGRAM_BROKEN, /* it cannot be run, or not be examined */
};

struct hf_program {
    enum hf_program_verdict verdict;
    char why[PATH_MAX + 512]; /* unless it fits: the reason, as the rest of a line */
    char path[PATH_MAX];      /* the file of the command, as execve(2) takes it */
    bool own_malloc;          /* it exports a malloc, which comes before any preloaded one */
};

/*
 * Finds a command as execvp(3) does, follows the interpreters of scripts as the kernel does, and
 * `#!/usr/bin/env NAME` to NAME, and examines the programs that this leads to. A script without a
 * first line `#!`, for which execvp(3) would start a shell, cannot be run.
 */
void hf_program_examine(const char *command, struct hf_program *out);

#endif
