/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `homefree run --adopt`: which files are adopted, and adopted copies of the libraries that the
 * program needs at its start. One thread; no state.
 */
#ifndef HOMEFREE_LOADER_COMMAND_RUN_RUN_ADOPT_H
#define HOMEFREE_LOADER_COMMAND_RUN_RUN_ADOPT_H

/* Adds adopt:PATTERNS to HOMEFREE_CONF, where the last of two values for a key counts. `patterns`
 * may also be the word "all". Returns HF_EXIT_CLEAN, or HF_EXIT_FAILED after a message. */
int hf_run_select(const char *who, const char *patterns);

/*
 * Composes what LD_PRELOAD must contain behind libhomefree so that the dynamic linker finds adopted
 * copies in place of libraries that the program needs. The libraries before them in the order of
 * symbol lookup are named too, so that this order stays. Makes copies that are missing, and says
 * which selected library cannot be replaced and why.
 *
 * Result: entries separated by colons, to be freed; NULL: there is nothing to replace, or no
 * memory.
 */
char *hf_run_adopt_needed(const char *who, const char *patterns, const char *program);

#endif
