/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inspected objects as the document of `homefree inspect` has them: in one that is written at once,
 * or in lines that Python reads (python/homefree/command/inspect_objects.py).
 *
 * No state but what a call uses. Names come from outside and may contain any byte but zero. One
 * thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_INSPECT_INSPECTED_H
#define HOMEFREE_LOADER_COMMAND_INSPECT_INSPECTED_H

#include "loader/command/rules.h"

/* What is looked at beyond what hf_inspect() does. */
struct hf_inspected_wishes {
    bool require_homefree; /* hf_inspection_require_homefree() */
    bool adoption;         /* hf_inspection_look_at_adoption() */
    bool without_use;      /* inspection.h */
    int root;              /* in whose file system objects are, or -1 */
};

extern const struct hf_rule_table hf_inspect_table;

/* Inspects the files and writes the document to stdout. `fails` has a flag for each rule whose
 * findings make the status HF_EXIT_FINDINGS; what cannot be inspected is told on stderr, too. */
int hf_inspected_print(const struct hf_inspected_wishes *wishes, char *const *paths,
                       const bool *fails);

/*
 * Inspects what stdin lists, and writes each as one line, the member of "files", as soon as it is
 * known, with the libraries that were "read" for it (null: not all were there). The list has three
 * strings for each object, each ended by a zero byte: a path, and where its contents begin in the
 * file `contents` and how many they are, or twice nothing for a file of its own. Paths of contents
 * begin with HF_INSPECTION_ROOT, are sorted by their bytes, and find each other. What cannot be
 * inspected has the member "error", and is not told otherwise.
 */
int hf_inspected_answer(const struct hf_inspected_wishes *wishes, int contents);

#endif
