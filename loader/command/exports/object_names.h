/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the modules that object files define.
 *
 * Owns: reading the functions by which CPython enters a module (PyInit_…, PyModExport_…) from
 * relocatable objects, archives and shared objects of any machine. Used by: the command `homefree
 * exports` and the Check suites.
 *
 * Constraint: files are hostile. Whatever a file contains, the result is its symbols or an error.
 */
#ifndef HOMEFREE_LOADER_COMMAND_EXPORTS_OBJECT_NAMES_H
#define HOMEFREE_LOADER_COMMAND_EXPORTS_OBJECT_NAMES_H

#include <stddef.h>

/* Counts, accumulated over the files that were read with the same struct. */
struct hf_objects_seen {
    size_t objects; /* ELF files, members of archives counted one by one */
    size_t defined; /* functions of modules that can be exported */
    size_t hidden;  /* those that cannot, because they were compiled with hidden visibility */
};

/* Receives each symbol that was found; a result other than 0 ends the reading with that result. */
typedef int hf_objects_found(const char *symbol, void *argument);

/*
 * Reads one file and calls `found` for each such function that it defines as a global or weak
 * symbol which can be exported, in the order of the symbol table; a symbol may come twice.
 * Shared objects are asked for what they export, the others for what they define.
 *
 *   path      in: a relocatable object, an archive of them (not a thin one) or a shared object
 *   found     in: called with a string that lives until it returns
 *   argument  in: passed to `found`
 *   seen      in/out: counts, added to; also when the reading fails half-way
 *   why       out: one line without a newline that says what is wrong; "" when nothing is
 *   why_size  in: bytes at `why`, at least 1; 160 are enough
 *
 * Result: 0, what `found` returned, or a negative errno: -ENOEXEC when the file cannot be
 * understood, otherwise why it could not be opened or read.
 *
 * Threads: may be called from several threads at a time. Leaves no descriptor open.
 */
int hf_objects_read(const char *path, hf_objects_found *found, void *argument,
                    struct hf_objects_seen *seen, char *why, size_t why_size);

#endif
