/*
 * Records of destructors: memory that somebody will free once, later, from wherever.
 *
 * record     one pointer, the function that frees it, and how many hold on to it. The public side
 *            is in homefree/deleter.h.
 * pinned     an object (in the loader's sense) that will never be unloaded
 * over       libhomefree's own ELF destructor has run: exit handlers and the static objects of what
 *            depends on libhomefree are gone
 *
 * Constraint: a record outlives interpreters, so nothing here knows Python; homefree/python.h does.
 * Nothing here takes a lock, but for pinning an object for the first time (the loader's).
 *
 * Copies of libhomefree (instance.h): records are made by the copy that is the heap, so that it
 * counts all; a record is worked by the functions of the copy that made it, whoever calls.
 */
#ifndef HOMEFREE_RELEASE_H
#define HOMEFREE_RELEASE_H

#include "alloc/heap/internal.h"

/* What hf_release_new() and hf_release_new_attempt() come down to. Exactly one of
 * destroy and attempt is not NULL. */
int hf_release_make(struct hf_release **out, void *pointer, void (*destroy)(void *pointer),
                    int (*attempt)(void *pointer), const char *name);

/* Whether a live block of this size is a record. */
bool hf_release_is_record(const void *block, size_t size);

/* The counts of this copy. */
struct hf_release_counts {
    uint64_t live;
    uint64_t run;
    uint64_t leaked;
};
struct hf_release_counts hf_release_count(void);

#endif
