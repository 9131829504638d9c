/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds foreign allocators, shared or compiled into an object, and those of their functions that
 * can be called. Runs in routing passes, under the loader's lock.
 */
#ifndef HOMEFREE_LOADER_FOREIGN_FINDING_H
#define HOMEFREE_LOADER_FOREIGN_FINDING_H

#include "alloc/base/dynlink.h"
#include "loader/elf/elf_file.h"

/* The imports of an object that suggest an allocator. */
struct hf_imports {
    bool maps;        /* a function that maps memory, or syscall */
    bool advises;     /* madvise */
    bool moves_break; /* sbrk, brk */
};

/*
 * Examines an object whose slots have just been routed. Reads the symbols of its file if the object
 * maps memory and uses it as allocators do, or exports an allocator. Pins objects whose functions
 * may be called from now on. Called in a routing pass, under the loader's lock.
 */
void hf_finding_look(const struct hf_object *object, const struct hf_imports *imports);

/* Whether an opened file is the one that was loaded as this object: its path may lead to another
 * one by now, after an update or a rebuild. Any thread. */
bool hf_finding_is_loaded(const struct link_map *map, struct hf_elf *elf);

/* ---- for `homefree doctor` and the routing report ---- */

/* Returns one line about the allocators inside an object, for people to read; NULL if there are
 * none. Called under the loader's lock. */
const char *hf_finding_remark(const struct link_map *map);

#endif
