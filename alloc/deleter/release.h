/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records of destructors: memory that will be freed once, later, by any thread and from any
 * library.
 *
 * record     a pointer, the function that frees it, and a reference count. homefree/deleter.h is
 *            the public side.
 * pinned     an object (in the loader's sense) that will never be unloaded
 * over       libhomefree's own ELF destructor has run: exit handlers and static destructors of
 *            the objects that depend on libhomefree have finished
 *
 * release.c owns the records. Constraint: a record outlives interpreters, so nothing here knows
 * Python; homefree/python.h does. Nothing here takes a lock, except the loader's: to pin an object
 * for the first time, and before glibc 2.35 to find the object that holds destroy.
 *
 * Instances of libhomefree (instance.h): the copy that is the heap creates all records, and so
 * counts them all; a record's operations run in the copy that created it, whichever copy is called.
 */
#ifndef HOMEFREE_ALLOC_DELETER_RELEASE_H
#define HOMEFREE_ALLOC_DELETER_RELEASE_H

#include "alloc/heap/internal.h"

/* hf_release_new() and hf_release_new_attempt() without forwarding. Exactly one of destroy and
 * attempt is not NULL. */
int hf_release_make(struct hf_release **out, void *pointer, void (*destroy)(void *pointer),
                    int (*attempt)(void *pointer), const char *name);

/* hf_release_new_space() without forwarding. Spaces lie above records: `give_back` is their
 * hf_space_free(), and is never unloaded. */
int hf_release_make_space(struct hf_release **out, void *pointer, int device, void *stream,
                          int (*give_back)(void *pointer, void *stream), const char *name);

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
