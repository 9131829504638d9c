/*
 * Finds GOT slots: the words through which an object calls a function, or holds its address, for a
 * given set of function names (those that routing intercepts or adoption replaces).
 *
 * Stateless. Callers keep the object loaded: by the loader's lock, or because it cannot be
 * unloaded.
 */
#ifndef HOMEFREE_GOT_SLOTS_H
#define HOMEFREE_GOT_SLOTS_H

#include "alloc/base/dynlink.h"

enum hf_slot_kind {
    HF_SLOT_CALL, /* JUMP_SLOT; may be unresolved */
    HF_SLOT_DATA, /* GLOB_DAT; an address that code loads */
    HF_SLOT_WORD  /* ABS64; an initialised variable, which the program may have changed */
};

/* A set of function names, numbered from 0. */
struct hf_function_names {
    int count;                     /* at most HF_FUNCTION_NAMES_MAX */
    int (*find)(const char *name); /* returns the function's number, or -1 */
    const char *(*name)(int function);
};
#define HF_FUNCTION_NAMES_MAX 128

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

#endif
