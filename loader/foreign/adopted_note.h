/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How adopted copies are told from other objects: by a note of their own.
 *
 * Owns one flag, which any thread may read. Notes of loaded objects are constant; files are
 * hostile.
 */
#ifndef HOMEFREE_LOADER_FOREIGN_ADOPTED_NOTE_H
#define HOMEFREE_LOADER_FOREIGN_ADOPTED_NOTE_H

#include "alloc/base/dynlink.h"

#define HF_ADOPTED_OWNER     "homefree"
#define HF_ADOPTED_TYPE      1
#define HF_ADOPTED_NAME_SIZE 12 /* the owner's name, terminated and padded */

/* What a copy says about itself. */
struct hf_adopted_note {
    uint64_t key[2];      /* of the cache */
    uint64_t slots, size; /* the segment that is read-only once it is relocated */
    uint64_t file_size;   /* of the copy */
    uint32_t redirections;
    uint32_t allocators;   /* bits by enum hf_allocator */
    uint32_t release_only; /* 1: its allocator stays in use; see
                              satellites/adopt/hidden/release_only.h */
    uint32_t reserved;
    char original[]; /* its path, and behind it why it is release-only, both terminated */
};

/* The note of a loaded object; NULL if it is no adopted copy. The object must stay loaded. */
const struct hf_adopted_note *hf_adopted_loaded(const struct link_map *map);

/*
 * Called for each new object in a routing pass, under the loader's lock: if it is an adopted copy,
 * makes the segment that holds its slots read-only. Result: whether its old allocator is out of
 * use.
 */
bool hf_adopted_look(const struct hf_object *object);

/* Whether a routing pass has ever seen one. */
bool hf_adopted_some(void);

#endif
