/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The libraries that subcommands preload into programs: where they are, and what LD_PRELOAD can
 * say. No state. One thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_PROGRAM_PRELOAD_H
#define HOMEFREE_LOADER_COMMAND_PROGRAM_PRELOAD_H

/* The library itself, which `homefree doctor` preloads. */
#define HF_PRELOAD_LIBRARY "libhomefree.so.1"

/* Set for the command by `python -m homefree` (python/homefree/__main__.py); no program that
 * the command runs gets it. */
#define HF_PYTHON_VARIABLE "HOMEFREE_PYTHON"

/* Which Python subcommands use: `named` unless it is NULL, the one that runs `python -m homefree`,
 * or python3. */
char *hf_preload_python(char *named);

/* The path of this command, to be freed; NULL if it is unknown or out of memory. */
char *hf_preload_self(void);

/* Finds the directory of this command's own file. Returns its path, to be freed, or NULL. */
char *hf_preload_directory(void);

/* Finds a library of the installation or build directory that this command belongs to. Returns its
 * real path, to be freed, or NULL. No environment variable has a say in it. */
char *hf_preload_find(const char *name);

/* The same for a file in one of `places`, which end with NULL and are seen from this command's
 * directory unless they are absolute. */
char *hf_preload_find_in(const char *const *places, const char *name);

/* Names what keeps a path out of LD_PRELOAD, which separates paths by spaces and colons and expands
 * variables: "a space". NULL: the path can stand there. */
const char *hf_preload_obstacle(const char *path);

/*
 * Composes a value of LD_PRELOAD: `library`, then what is in `list`, which may be NULL, without the
 * entries whose file is named like one of `replaced` (ends with NULL), also with a version behind
 * it. To be freed; NULL: no memory.
 */
char *hf_preload_before(const char *library, const char *list, const char *const *replaced);

#endif
