/*
 * Between the files of inspect.c: memory of an inspection, the names and versions that it looks
 * for, and the search for needed libraries.
 */
#ifndef HOMEFREE_INSPECT_PARTS_H
#define HOMEFREE_INSPECT_PARTS_H

#include "loader/elf/elf_names.h"
#include "loader/inspect/inspection.h"

/* Memory that lives as long as the inspection; NULL when there is none. Zeroed. */
void *hf_inspection_allocate(struct hf_inspection *inspection, size_t size);
/* A copy of at most HF_INSPECTION_STRING_MAX bytes; NULL when there is no memory. */
const char *hf_inspection_copy(struct hf_inspection *inspection, const char *text);

/* What a name is, by the number of the pattern that it fits, or -1. */
enum hf_inspect_name {
    HF_NAME_OTHER,
    HF_NAME_ALLOCATOR, /* a symbol by which an allocator is recognised: hf_allocator_patterns */
    HF_NAME_FUNCTION,  /* exported by whoever replaces the process's allocator */
    HF_NAME_HANDING    /* hands out memory of libc's that its caller frees */
};
enum hf_inspect_name hf_inspect_name_kind(int pattern);
/* The matcher of them all; points to `patterns`, which it fills. Result: 0 or a negative errno. */
int hf_inspect_names(struct hf_names *matcher, const char *patterns[HF_NAMES_MAX]);

/* The newest version node of homefree that a file needs; NULL where it needs none. */
struct hf_inspect_versions {
    struct hf_inspection *inspection;
    const char *newest;
    unsigned numbers[2]; /* of `newest`: major and minor */
};
bool hf_inspect_is_newer(const unsigned one[2], const unsigned other[2]);
/* For hf_elf_versions(); the context is a struct hf_inspect_versions. Notes, too, which libraries
 * are used, and whether the file is libhomefree itself. */
bool hf_inspect_version(const char *library, const char *version, bool needed, void *context);

/* Names, by hash. Holds pointers to the caller's strings. Names longer than
 * HF_INSPECTION_STRING_MAX are left out: hashing them all could take for ever. */
struct hf_name_set {
    const char **slots;
    size_t capacity, count; /* capacity: 0, or a power of two */
};
int hf_name_set_add(struct hf_name_set *set, const char *name);
bool hf_name_set_has(const struct hf_name_set *set, const char *name);
void hf_name_set_free(struct hf_name_set *set);

/* Finds out which of the libraries whose state is not HF_LIBRARY_USED define one of `names`.
 * Result: 0 or -ENOMEM. */
int hf_inspect_libraries(struct hf_elf *elf, struct hf_inspection *inspection,
                         const struct hf_name_set *names);

#endif
