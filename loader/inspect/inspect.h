/*
 * What a shared object would do to the process that loads it: facts, and findings by the rules of
 * rules.def. Prints nothing, keeps no state, runs nothing of the file.
 *
 * Owns: all that a struct hf_inspection points to, until hf_inspection_free(). Strings come from
 * the file and can hold any bytes but zero; they are cut at HF_INSPECTION_STRING_MAX bytes.
 *
 * Threads: any number of inspections at the same time. Allocates with malloc, so it is not for
 * places where an allocator's locks are held, nor for signal handlers.
 */
#ifndef HOMEFREE_INSPECT_H
#define HOMEFREE_INSPECT_H

#include "loader/inspect/inspection.h"

/*
 * Inspects the file at `path`. Result: 0, or a negative errno with `why` set: what open(2) says,
 * -EISDIR, -ENOEXEC for what is no ELF file or is damaged, -ENOMEM. A file for another machine or
 * of another class is a finding, not a failure. hf_inspection_free() is needed after success and
 * harmless after failure.
 */
int hf_inspect(const char *path, struct hf_inspection *out);

/* The same for a file that is open already, and stays the caller's. `path` is where $ORIGIN is. */
int hf_inspect_elf(struct hf_elf *elf, const char *path, struct hf_inspection *out);

/* The gravest severity among the findings; HF_SEVERITY_NOTE also where there are none. */
enum hf_severity hf_inspection_severity(const struct hf_inspection *inspection);

#endif
