/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The first line of a script, as the kernel reads it (fs/binfmt_script.c), and the arguments of
 * env(1) in it. No state; any thread. The bytes are hostile.
 */
#ifndef HOMEFREE_LOADER_COMMAND_PROGRAM_SCRIPT_H
#define HOMEFREE_LOADER_COMMAND_PROGRAM_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

enum {
    HF_SCRIPT_LINE = 256, /* of a file, the kernel looks at no more (BINPRM_BUF_SIZE) */
    HF_SCRIPT_DEPTH = 5,  /* scripts whose interpreter is a script, and so on; then ELOOP */
};

/* An interpreter and its one argument, "" if there is none. */
struct hf_script {
    char interpreter[HF_SCRIPT_LINE], argument[HF_SCRIPT_LINE];
};

/* Parses the first bytes of a file, `size` of them, at most HF_SCRIPT_LINE. False if they are not
 * the beginning of a script that the kernel would run. */
bool hf_script_read(const char *bytes, size_t size, struct hf_script *out);

enum hf_script_env {
    HF_SCRIPT_ENV_RUNS,    /* it runs `command`, which it finds by PATH, and keeps LD_PRELOAD */
    HF_SCRIPT_ENV_CLEARS,  /* it removes or changes LD_PRELOAD */
    HF_SCRIPT_ENV_NOTHING, /* it names no command, so env runs the script again */
    HF_SCRIPT_ENV_UNKNOWN, /* options that this reader does not follow */
};

/* What env(1) does with the argument of a script's first line. */
enum hf_script_env hf_script_env(const char *argument, char command[static HF_SCRIPT_LINE]);

#endif
