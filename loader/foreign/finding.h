/*
 * Finding foreign allocators: other allocators in the process, shared or compiled into some object,
 * and the functions of theirs that can be called.
 */
#ifndef HOMEFREE_FINDING_H
#define HOMEFREE_FINDING_H

#include "alloc/base/dynlink.h"

/* What an object imports, as far as that tells an allocator. */
struct hf_imports {
    bool maps;        /* mmap and its kind, or syscall */
    bool advises;     /* madvise */
    bool moves_break; /* sbrk, brk */
};

/*
 * Looks at an object whose slots have just been routed. Its file is read for symbols where it maps
 * memory and uses it as allocators do, or exports an allocator.
 * Called in a routing pass, under the loader's lock. Objects with functions that may be called from
 * now on are pinned.
 */
void hf_finding_look(const struct hf_object *object, const struct hf_imports *imports);

/* ---- for `homefree doctor` and the report of routing ---- */

/* One line for a person about the allocators inside an object; NULL where there are none. */
const char *hf_finding_remark(const struct link_map *map);

#endif
