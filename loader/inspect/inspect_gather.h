/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the files of inspect only: what the passes over one file collect. No locks; one thread
 * uses one inspection.
 */
#ifndef HOMEFREE_LOADER_INSPECT_INSPECT_GATHER_H
#define HOMEFREE_LOADER_INSPECT_INSPECT_GATHER_H

#include "loader/inspect/inspect_parts.h"

/* Counts names and keeps the first few. */
struct hf_kept_names {
    const char *first[HF_INSPECTION_NAMES_MAX];
    size_t kept, count;
};

struct hf_gather {
    struct hf_inspection *inspection;
    struct hf_elf *elf;
    struct hf_names matcher; /* allocators' symbols, then allocator functions */
    const char *patterns[HF_NAMES_MAX];
    size_t evidence[HF_ALLOCATOR_COUNT]; /* the pattern that identified each allocator */
    struct hf_name_set imports;      /* undefined names that no version attributes to a library */
    struct hf_kept_names exports;    /* except what Python calls and the linker adds */
    struct hf_kept_names functions;  /* exported allocator functions */
    struct hf_kept_names handing;    /* imported functions that return libc's memory */
    struct hf_kept_names allocating; /* imported: malloc, operator new and the like */
    struct hf_kept_names memory; /* all imported functions that allocate, free or hand out memory */
    bool own_free, other_free;   /* it defines a hidden free(); it imports or exports a free() */
    const char *init;   /* what CPython calls: for the module of the file's name, or the first */
    const char *module; /* the module's name in `init` */
    unsigned functions_of_module;       /* bits: the functions that it has (module_functions.def) */
    size_t modules;                     /* number of modules that have such a function */
    bool module_fits;                   /* `module` is the file's name */
    struct hf_inspection_finding spare; /* written to when `findings` is full */
    bool out_of_memory;
};

/* Counts a name, and keeps it where there is room. */
void hf_gather_keep(struct hf_kept_names *names, const char *name);

/* Copies the names that were kept into the inspection's memory, and counts them. */
void hf_gather_copy(struct hf_gather *gather, const struct hf_kept_names *names, const char **out,
                    size_t *count);

#endif
