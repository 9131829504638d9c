/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The entry points of hidden allocators, from entries.def and shim/functions.def: which names they
 * have, and which function of homefree's does the same on the heap.
 *
 * Owns: nothing. Constant data, and a matcher that its caller owns; any thread.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_HIDDEN_ENTRIES_H
#define HOMEFREE_SATELLITES_ADOPT_HIDDEN_ENTRIES_H

#include "loader/elf/elf_names.h"
#include "loader/foreign/known_allocators.h"

/* What functions have in common whose code a linker may fold into one: the same parameters, as far
 * as they matter to the heap, and the same effect. */
enum hf_entry_family {
    HF_ENTRY_RELEASES,          /* f(pointer, …): the rest does not matter */
    HF_ENTRY_ALLOCATES,         /* f(size): NULL when there is no memory */
    HF_ENTRY_ZEROES,            /* f(size) */
    HF_ENTRY_NEW,               /* f(size): throws when there is no memory */
    HF_ENTRY_ALIGNS,            /* f(alignment, size) */
    HF_ENTRY_ALLOCATES_ALIGNED, /* f(size, alignment) */
    HF_ENTRY_NEW_ALIGNED,       /* f(size, alignment): throws */
    HF_ENTRY_HEAP_ALLOCATES,    /* f(heap, size) */
    HF_ENTRY_RESIZES,           /* f(pointer, size): mimalloc's, if it is also that */
    HF_ENTRY_RESIZES_ARRAY,     /* f(pointer, count, size): likewise */
    HF_ENTRY_MEASURES,          /* f(pointer, …): the size of a block */
    HF_ENTRY_NOTHING,           /* f(…): 0, or no result */
    HF_ENTRY_OWN                /* like no other function but those that the same one serves */
};

/* The names are arrays, because each start would have to relocate pointers to them. */
struct hf_entry {
    char pattern[44];            /* as in entries.def */
    char function[36];           /* libhomefree's, by name; "": of a runtime library */
    enum hf_allocator allocator; /* HF_ALLOCATOR_COUNT: any */
    enum hf_entry_family family;
    bool hook;
};
extern const struct hf_entry hf_entries[];
extern const size_t hf_entries_count;

/* The prefixes of an allocator's functions in one file: "je_arrow_", "". */
#define HF_ENTRY_PREFIXES_MAX 8
struct hf_entry_names {
    struct hf_entry_table {
        struct hf_names names;
        const char *patterns[HF_NAMES_MAX];
        const struct hf_entry *entries[HF_NAMES_MAX];
        size_t count;
    } prefixed, others; /* names behind a prefix, without their star; and the rest */
    struct {
        const char *text; /* not terminated */
        size_t length;
        enum hf_allocator allocator;
    } prefixes[HF_ENTRY_PREFIXES_MAX];
    size_t prefixes_count;
};

/* Prepares the matcher. Result: 0 or a negative errno. */
int hf_entry_names_prepare(struct hf_entry_names *names);

/* Takes note of a prefix, if the name is that of a function by which the prefix is known. The name
 * must stay. */
void hf_entry_names_prefix(struct hf_entry_names *names, const char *name);

/* The function that serves code with the names of both entries; NULL if there is none. */
const char *hf_entry_shared(const struct hf_entry *one, const struct hf_entry *other);

/* Whether a name is one that only an allocator in the file has, by its prefix. */
bool hf_entry_names_own(const struct hf_entry_names *names, const char *name);

/* The entry of that name, or NULL. All prefixes must be known. */
const struct hf_entry *hf_entry_named(const struct hf_entry_names *names, const char *name);

#endif
