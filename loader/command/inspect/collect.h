/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the shared objects in what `homefree inspect` was given, and inspects them.
 *
 * Owns: the open files, and the Python that reads archives (read_archive.py), until
 * hf_collect_end(). Everything that is read is hostile: links that lead in circles, FIFOs, damaged
 * archives and names with any byte give an error for what they are, and the rest is inspected. One
 * thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_INSPECT_COLLECT_H
#define HOMEFREE_LOADER_COMMAND_INSPECT_COLLECT_H

#include "loader/command/inspect/inspected.h"

struct hf_collect {
    char *python;                   /* which Python reads archives and knows distributions */
    bool require_homefree;          /* hf_inspection_require_homefree() */
    bool adoption;                  /* hf_inspection_look_at_adoption() */
    struct hf_inspected *inspected; /* where the results go */
    struct hf_archive_reader *archives, *packages; /* private */
};

/* Inspects a shared object, the shared objects in a directory, or those in an archive. */
void hf_collect_path(struct hf_collect *collect, char *path);

/* Inspects the shared objects of an installed distribution. */
void hf_collect_package(struct hf_collect *collect, const char *name);

/* Ends the readers. */
void hf_collect_end(struct hf_collect *collect);

#endif
