/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the files of inspect only: an inspection's memory, the names, versions and members that
 * it looks for, and the search for needed libraries. No locks; one thread uses one inspection.
 */
#ifndef HOMEFREE_LOADER_INSPECT_INSPECT_PARTS_H
#define HOMEFREE_LOADER_INSPECT_INSPECT_PARTS_H

#include "loader/elf/elf_names.h"
#include "loader/inspect/inspection.h"

/* Allocates zeroed memory that lives as long as the inspection; NULL if there is none. */
void *hf_inspection_allocate(struct hf_inspection *inspection, size_t size);
/* Copies at most HF_INSPECTION_STRING_MAX bytes of a string; NULL if there is no memory. */
const char *hf_inspection_copy(struct hf_inspection *inspection, const char *text);

/* The kind of a name, from the number of the pattern that it matches, or from -1. */
enum hf_inspect_name {
    HF_NAME_OTHER,
    HF_NAME_ALLOCATOR, /* a symbol that identifies an allocator: hf_allocator_patterns */
    HF_NAME_FUNCTION,  /* exported by an object that replaces the process's allocator */
    HF_NAME_HANDING    /* returns memory of libc's that its caller must free */
};
enum hf_inspect_name hf_inspect_name_kind(int pattern);
bool hf_inspect_name_allocates(int pattern); /* malloc, realloc, operator new, ... */
/* Prepares the matcher of all these names. It points to `patterns`, which this function fills.
 * Returns 0 or a negative errno. */
int hf_inspect_names(struct hf_names *matcher, const char *patterns[HF_NAMES_MAX]);

/* The newest version nodes that a file needs of those that somebody has. */
struct hf_inspect_newest {
    const char *name;    /* NULL: it needs none */
    unsigned numbers[2]; /* major and minor version */
};
struct hf_inspect_versions {
    struct hf_inspection *inspection;
    struct hf_inspect_newest homefree, glibc; /* glibc's without "GLIBC_" */
};
bool hf_inspect_is_newer(const unsigned one[2], const unsigned other[2]);
/* A visitor for hf_elf_versions(), whose context is a struct hf_inspect_versions. It also records
 * which libraries are used and whether the file is libhomefree itself. */
bool hf_inspect_version(const char *library, const char *version, bool needed, void *context);

/* Lists the members of the registry that the file publishes. Returns 0 or -ENOMEM. */
int hf_inspect_members(struct hf_elf *elf, struct hf_inspection *inspection);

/* A hash set of names. It points to the caller's strings. Names longer than
 * HF_INSPECTION_STRING_MAX are left out, because hashing hostile names would take unbounded
 * time. */
struct hf_name_set {
    const char **slots;
    size_t capacity, count; /* capacity: 0, or a power of two */
};
int hf_name_set_add(struct hf_name_set *set, const char *name);
bool hf_name_set_has(const struct hf_name_set *set, const char *name);
void hf_name_set_free(struct hf_name_set *set);

/* Finds which libraries define one of `names`, among those whose state is not yet HF_LIBRARY_USED.
 * Returns 0 or -ENOMEM. */
int hf_inspect_libraries(struct hf_elf *elf, struct hf_inspection *inspection,
                         const struct hf_name_set *names);

#endif
