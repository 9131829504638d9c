/*
 * Finding slots: the words of an object through which it calls, or holds the address of, a function
 * of a given set of names (those that routing stands in front of, those that adoption replaces).
 */
#ifndef HOMEFREE_GOT_SLOTS_H
#define HOMEFREE_GOT_SLOTS_H

#include "alloc/base/dynlink.h"

enum hf_slot_kind {
    HF_SLOT_CALL, /* JUMP_SLOT: may not be resolved yet */
    HF_SLOT_DATA, /* GLOB_DAT: an address that code loads */
    HF_SLOT_WORD  /* ABS64: an initialised variable, which the program may have changed since */
};

/* A set of functions' names; they are numbered from 0. */
struct hf_function_names {
    int count;                     /* at most HF_FUNCTION_NAMES_MAX */
    int (*find)(const char *name); /* the function of that name, or -1 */
    const char *(*name)(int function);
};
#define HF_FUNCTION_NAMES_MAX 128

struct hf_slot {
    void **address;
    int function; /* number in the set that was asked for */
    enum hf_slot_kind kind;
    size_t symbol; /* index in the object's symbol table */
};

typedef void hf_slot_visitor(const struct hf_slot *slot, void *context);

/*
 * Calls visit for each slot of an opened object. Allocates nothing, takes no lock.
 * `defined`: also slots of functions that the object defines itself (libc, whose own calls go
 * through such slots).
 */
void hf_slots_visit(const struct hf_object *object, const struct hf_function_names *names,
                    bool defined, hf_slot_visitor *visit, void *context);

#endif
