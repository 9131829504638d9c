/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the file of a loaded object says about allocating and freeing: the functions of interest
 * that it defines, and the slots through which it calls them.
 *
 * Constraint: files are hostile; slots and relocations are bounded.
 *
 * Owns: a struct hf_live_facts, until hf_live_facts_free(). One thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_DOCTOR_LIVE_FACTS_H
#define HOMEFREE_LOADER_COMMAND_DOCTOR_LIVE_FACTS_H

#include "loader/elf/elf_file.h"

/* The functions of interest. */
enum hf_live_function_kind {
    HF_LIVE_ROUTED,     /* free() and its kind: routing changes its slots */
    HF_LIVE_OPERATOR,   /* operator delete: the same */
    HF_LIVE_ALLOCATING, /* malloc() and its kind */
    HF_LIVE_MAPPING,    /* returns pages */
    HF_LIVE_MARK        /* tells what an object is */
};
enum { HF_LIVE_FUNCTIONS_MAX = 96 };

const char *hf_live_function_name(size_t function);
enum hf_live_function_kind hf_live_function_kind(size_t function);
size_t hf_live_function_count(void);

enum hf_live_role {
    HF_LIVE_ORDINARY,
    HF_LIVE_RUNTIME,
    HF_LIVE_LINKER,
    HF_LIVE_HOMEFREE,
    HF_LIVE_SATELLITE
};

struct hf_live_slot {
    uint64_t address; /* in the file */
    uint8_t function;
    uint8_t kind; /* 0: call, 1: data, 2: word; as in a record */
};

struct hf_live_facts {
    bool known; /* the file could be read */
    enum hf_live_role role;
    char *soname; /* NULL: none */
    bool maps, static_tls, cpython, linked;
    bool defines[HF_LIVE_FUNCTIONS_MAX];
    uint64_t defined_at[HF_LIVE_FUNCTIONS_MAX]; /* addresses in the file */
    /* Addresses in the file that stand for functions it does not define, in a program that is not
     * position-independent; 0: none. */
    uint64_t stands_for[HF_LIVE_FUNCTIONS_MAX];
    uint64_t instance, state; /* addresses in the file of HF_LIVE_INSTANCE, HF_LIVE_SYMBOL; or 0 */
    struct hf_live_slot *slots;
    size_t slots_count;
};

/* Reads an opened file. False: out of memory. */
bool hf_live_facts_read(struct hf_elf *elf, struct hf_live_facts *out);

void hf_live_facts_free(struct hf_live_facts *facts);

#endif
