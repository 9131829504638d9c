/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The slots through which objects allocate from the heap: those of modules that are linked with the
 * shim, of adopted objects and copies, and in whole-process mode of all. Limits
 * (satellites/limits/) put functions of their own there.
 *
 * Owns whom a routing pass tells of new objects, sealed. The loader's lock guards the slots.
 */
#ifndef HOMEFREE_LOADER_INTERPOSE_LIMIT_SLOTS_H
#define HOMEFREE_LOADER_INTERPOSE_LIMIT_SLOTS_H

#include <link.h>
#include <stdbool.h>

/* How a function tells what it allocates. */
enum hf_limit_kind {
    HF_LIMIT_MALLOC, /* as malloc() */
    HF_LIMIT_RESULT, /* returns the block, or NULL */
    HF_LIMIT_OUT,    /* stores the block where the first argument points to: 0, or an errno */
    HF_LIMIT_THROWS, /* as operator new */
    /* Returns the block, or NULL; takes one, or NULL, and its new size. The rest comes later. */
    HF_LIMIT_RESIZE,            /* (block, size) */
    HF_LIMIT_RESIZE_ARRAY,      /* (block, count, size) */
    HF_LIMIT_HEAP_RESIZE,       /* (heap, block, size) */
    HF_LIMIT_HEAP_RESIZE_ARRAY, /* (heap, block, count, size) */
    HF_LIMIT_RESIZE_OR_FREE     /* (block, size); a block that cannot be resized is freed */
};

/* What is done with slots. The functions must not allocate. */
struct hf_limit_slots {
    /* Whether an object's slots are to be visited. path: the original's if it is an adopted copy.
     */
    bool (*wants)(const struct hf_limit_slots *slots, const struct link_map *map, const char *path);
    /* What a slot is to hold instead of a function of homefree's or of a satellite's; NULL: it
     * stays. */
    void *(*choose)(const struct hf_limit_slots *slots, enum hf_limit_kind kind, void *function);
    int error; /* out: the last one that a write had; negative errno */
};

/* Visits the slots of all objects: takes the loader's lock, under which it calls `first` before and
 * `last` afterwards, which returns whether all are to be visited once more. Result: 0 or -ENOSYS.
 */
int hf_limit_slots_all(struct hf_limit_slots *slots, void (*first)(struct hf_limit_slots *slots),
                       bool (*last)(struct hf_limit_slots *slots));
/* The same of an object and those that follow it. With the loader's lock, in a slot update
 * (slot_writes.h). */
void hf_limit_slots_from(struct hf_limit_slots *slots, const struct link_map *map);

/* Whom to tell of new objects, once and for all: it is called as hf_limit_slots_from(), with the
 * first one. False if the system refuses to make a table writable. */
bool hf_limit_slots_offer(void (*loaded)(const struct link_map *map));
void hf_limit_slots_add(const struct link_map *map);

/* Whether a function is of those that are told: a slot that leads there is as it was before for
 * whoever routes or adopts. */
bool hf_limit_slots_has(const void *function);

#endif
