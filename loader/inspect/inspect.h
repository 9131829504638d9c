/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports what a shared object would do to the process that loads it: facts, and findings by the
 * rules of rules.def. Prints nothing, keeps no state and runs nothing of the file.
 *
 * Owns: everything that a struct hf_inspection points to, until hf_inspection_free(). Strings come
 * from the file and may contain any byte but zero; they are cut at HF_INSPECTION_STRING_MAX bytes.
 *
 * Threads: any number of inspections may run at the same time. Inspecting allocates with malloc, so
 * do not call it while holding an allocator's lock or in a signal handler.
 */
#ifndef HOMEFREE_LOADER_INSPECT_INSPECT_H
#define HOMEFREE_LOADER_INSPECT_INSPECT_H

#include "loader/inspect/inspection.h"

/*
 * Inspects the file at `path`. Returns 0, or a negative errno with `why` set: an error of open(2),
 * -EISDIR, -ENOEXEC if it is not an ELF file or is damaged, or -ENOMEM. A file for another machine
 * or of another class is a finding, not a failure. hf_inspection_free() is required after success
 * and harmless after failure.
 */
int hf_inspect(const char *path, struct hf_inspection *out);

/* The same for an open file, which the caller keeps. `path` is the file's path, for $ORIGIN. */
int hf_inspect_elf(struct hf_elf *elf, const char *path, struct hf_inspection *out);

/*
 * The same for a file of `files`, by its path there, below HF_INSPECTION_ROOT where there is an
 * open(). A library that it needs is looked for there, if its RUNPATH leads there, and otherwise in
 * the file system.
 */
int hf_inspect_among(const char *path, const struct hf_inspection_files *files,
                     struct hf_inspection *out);

/* Whether the file contains an allocator or imports functions that hand out or take back memory. */
bool hf_inspection_allocates(const struct hf_inspection *inspection);

/* Adds the finding of HF_RULE_NOT_LINKED where it applies, which hf_inspect() leaves out. Returns 0
 * or -ENOMEM. */
int hf_inspection_require_homefree(struct hf_inspection *inspection);

/*
 * Adds the finding of HF_RULE_ADOPTABLE, HF_RULE_RELEASE_ONLY or HF_RULE_NOT_ADOPTABLE for an
 * object with an allocator inside, which hf_inspect() leaves out because it takes up to seconds.
 * `elf` is the inspected file, `path` where debug files are looked for. Returns 0 or -ENOMEM.
 */
int hf_inspection_look_at_adoption(struct hf_inspection *inspection, struct hf_elf *elf,
                                   const char *path);

/* The gravest severity among the findings; HF_SEVERITY_NOTE also where there are none. */
enum hf_severity hf_inspection_severity(const struct hf_inspection *inspection);

#endif
