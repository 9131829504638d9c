/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Slot policy: decides about one GOT slot. Routing, which writes, and the report share the
 * decision.
 *
 * Scopes and decisions need the loader's lock; hf_definer_note() and hf_definer_note_deep() may be
 * called from any thread without it. Deciding has two side effects.
 * Where several objects define free(), it lets the loader resolve an unresolved slot, as the slot's
 * first call would. Where it meets libc's allocator and a serving allocator in one process, it
 * starts telling their blocks apart (hf_foreign_begin_deep()).
 */
#ifndef HOMEFREE_LOADER_INTERPOSE_SLOT_POLICY_H
#define HOMEFREE_LOADER_INTERPOSE_SLOT_POLICY_H

#include "loader/foreign/object_role.h"
#include "loader/interpose/got_slots.h"
#include "loader/interpose/routed.h"

#include <homefree/homefree.h>

/* A namespace during one pass. */
struct hf_scope {
    const struct link_map *first;
    bool base;                          /* the program's namespace */
    bool ours;                          /* the namespace that this libhomefree was loaded into */
    void *definitions[HF_ROUTED_COUNT]; /* targets of unresolved slots, as far as known */
    bool looked_up[HF_ROUTED_COUNT];
    enum { HF_SCOPE_UNKNOWN, HF_SCOPE_ONE_FREE, HF_SCOPE_SEVERAL_FREES } frees;
};

/* Returns the scope for a pass over the namespace whose first object is `first`. */
struct hf_scope hf_scope_begin(const struct link_map *first, bool base);

struct hf_decision {
    enum hf_route_state state;
    bool change;        /* state is CHANGED and the slot does not point to a stub yet */
    bool ignore;        /* routing does not apply to the slot: not counted */
    void *original;     /* the target of calls whose pointers are not the heap's */
    const char *reason; /* for REFUSED */
};

/* Notes that an object's slot goes to this original. If that is libc's free() or realloc() although
 * another allocator serves the process, both kinds of blocks are told apart from then on
 * (foreign.h). */
void hf_definer_note(enum hf_routed function, const void *original);

/* The same for an object opened with RTLD_DEEPBIND, which may have no slot for either function. */
void hf_definer_note_deep(void);

/* Decides about a slot of an ordinary object or a runtime. Reads the slot; the object must be
 * relocated, which the loader's lock guarantees. */
struct hf_decision hf_slot_decide(const struct hf_object *object, enum hf_object_role role,
                                  struct hf_scope *scope, const struct hf_slot *slot);

/* Returns the first definition of a function in load order, or NULL. */
void *hf_scope_definition(const struct hf_scope *scope, const char *name);

/* Returns whether an initialised variable (HF_SLOT_WORD) still holds the value the loader stored: a
 * definition of the function, or the program's PLT entry that stands for it. */
bool hf_word_is_untouched(const struct hf_scope *scope, const char *name, const void *value);

/* Returns whether a symbol version ties the object's reference to a library other than the one the
 * function belongs to; it is then another function of the same name. `is_operator`: the function
 * belongs to the C++ runtime. */
bool hf_slot_is_foreign(const struct hf_object *object, size_t symbol, bool is_operator);

#endif
