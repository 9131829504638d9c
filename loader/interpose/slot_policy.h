/*
 * What is to be done with one slot: the same decision serves routing, which then writes, and the
 * report, which only tells. Deciding changes no slot, but for one case: where several
 * objects define free(), a slot that is not resolved yet is resolved by the loader, as its first
 * call would. It begins to tell libc's blocks from a serving allocator's where it meets both
 * (hf_foreign_begin_deep()).
 */
#ifndef HOMEFREE_SLOT_POLICY_H
#define HOMEFREE_SLOT_POLICY_H

#include "loader/foreign/object_role.h"
#include "loader/interpose/got_slots.h"
#include "loader/interpose/routed.h"

#include <homefree/homefree.h>

/* A namespace as a pass sees it. */
struct hf_scope {
    const struct link_map *first;
    bool base;                          /* the namespace of the program */
    bool ours;                          /* the one that this libhomefree was loaded into */
    void *definitions[HF_ROUTED_COUNT]; /* what an unresolved slot will resolve to, if known */
    bool looked_up[HF_ROUTED_COUNT];
    enum { HF_SCOPE_UNKNOWN, HF_SCOPE_ONE_FREE, HF_SCOPE_SEVERAL_FREES } frees;
};

/* A pass's view of the namespace that begins with `first`. */
struct hf_scope hf_scope_begin(const struct link_map *first, bool base);

struct hf_decision {
    enum hf_route_state state;
    bool change;        /* state is CHANGED, and the slot does not point to a stub yet */
    bool ignore;        /* the slot is none of routing's business: not counted at all */
    void *original;     /* where calls that are not the heap's go */
    const char *reason; /* for REFUSED */
};

/* An object's slot goes to this original. Where that is libc's free() or realloc() although another
 * allocator serves the process, both kinds of blocks are told apart from now on (foreign.h). */
void hf_definer_note(enum hf_routed function, const void *original);

/* The same for an object that RTLD_DEEPBIND has brought, which may have no slot of those. */
void hf_definer_note_deep(void);

/* Whether routing may stand in front of a function that was found by its name: some names are
 * everybody's, and mean what they say only where libc or a known allocator defines them. */
bool hf_function_is_known(enum hf_routed function, const void *address);

/* Decides about a slot of an ordinary object or a runtime. Reads the slot; the caller guarantees
 * that the object is relocated (the loader's lock). */
struct hf_decision hf_slot_decide(const struct hf_object *object, enum hf_object_role role,
                                  struct hf_scope *scope, const struct hf_slot *slot);

/* The first definition of a function in the namespace's order of loading; NULL where there is none.
 */
void *hf_scope_definition(const struct hf_scope *scope, const char *name);

/* Whether an initialised variable (HF_SLOT_WORD) still holds what the loader put there: a
 * definition of the function, or the program's PLT entry that stands for it. */
bool hf_word_is_untouched(const struct hf_scope *scope, const char *name, const void *value);

/* Whether the object asks, by version, for this function of a library other than the one that it
 * belongs to: another function of the same name. `is_operator`: C++'s, of its runtime. */
bool hf_slot_is_foreign(const struct hf_object *object, size_t symbol, bool is_operator);

#endif
