/*
 * Finding slots: the words of an object through which it calls, or holds the address of, a routed
 * function.
 */
#ifndef HOMEFREE_SLOTS_H
#define HOMEFREE_SLOTS_H

#include "dynlink.h"
#include "stubs.h"

enum hf_slot_kind {
    HF_SLOT_CALL, /* JUMP_SLOT: may not be resolved yet */
    HF_SLOT_DATA, /* GLOB_DAT: an address that code loads */
    HF_SLOT_WORD  /* ABS64: an initialised variable, which the program may have changed since */
};

struct hf_slot {
    void **address;
    enum hf_routed function;
    enum hf_slot_kind kind;
    size_t symbol; /* index in the object's symbol table */
};

typedef void hf_slot_visitor(const struct hf_slot *slot, void *context);

/*
 * Calls visit for each slot of an opened object. Allocates nothing, takes no lock.
 * `defined`: also slots of functions that the object defines itself (libc, whose own calls go
 * through such slots).
 */
void hf_slots_visit(const struct hf_object *object, bool defined, hf_slot_visitor *visit,
                    void *context);

#endif
