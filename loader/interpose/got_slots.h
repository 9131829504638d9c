/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds GOT slots: the words through which an object calls a function, or holds its address, for a
 * given set of function names (those that routing intercepts or adoption replaces).
 *
 * Stateless. Callers keep the object loaded: by the loader's lock, or because it cannot be
 * unloaded.
 */
#ifndef HOMEFREE_LOADER_INTERPOSE_GOT_SLOTS_H
#define HOMEFREE_LOADER_INTERPOSE_GOT_SLOTS_H

#include "alloc/base/dynlink.h"

#include <string.h>

enum hf_slot_kind {
    HF_SLOT_CALL, /* JUMP_SLOT; may be unresolved */
    HF_SLOT_DATA, /* GLOB_DAT; an address that code loads */
    HF_SLOT_WORD  /* ABS64; an initialised variable, which the program may have changed */
};

/* Objects have thousands of names, and almost none of them are in a set. A bit for each hash of the
 * first four bytes of a set's names rejects nearly all others. */
struct hf_name_starts {
    uint64_t bits[16];
};

/* A set of function names, numbered from 0. */
struct hf_function_names {
    int count;                     /* at most HF_FUNCTION_NAMES_MAX */
    int (*find)(const char *name); /* returns the function's number, or -1 */
    const char *(*name)(int function);
    const struct hf_name_starts *starts; /* of names of at least three characters; NULL: unknown */
};
#define HF_FUNCTION_NAMES_MAX 128

/* The hash of a name's first four bytes, of which the last may be the end of the name. */
static inline uint32_t hf_name_start(const char *name)
{
    uint32_t word;
    memcpy(&word, name, sizeof word);
    return word * 0x9e3779b1U >> 22;
}

static inline bool hf_name_may_start(const struct hf_name_starts *starts, uint32_t start)
{
    return (starts->bits[start / 64] >> start % 64 & 1) != 0;
}

struct hf_slot {
    void **address;
    int function; /* number in the given set */
    enum hf_slot_kind kind;
    size_t symbol;     /* index in the object's symbol table */
    size_t relocation; /* index in its table of relocations */
};

typedef void hf_slot_visitor(const struct hf_slot *slot, void *context);

/*
 * Calls `visit` for each slot of an opened object. `defined` includes slots of functions that the
 * object defines itself (libc calls its own functions through such slots). Allocates nothing and
 * takes no lock.
 */
void hf_slots_visit(const struct hf_object *object, const struct hf_function_names *names,
                    bool defined, hf_slot_visitor *visit, void *context);

/* The same for an adopted copy (foreign/adopted_note.h): whose slots of its own are for symbols
 * behind those that its hash table knows. Looks at every relocation. */
void hf_slots_visit_all(const struct hf_object *object, const struct hf_function_names *names,
                        hf_slot_visitor *visit, void *context);

#endif
