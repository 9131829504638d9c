/*
 * Finding neighbours: allocators in the process that say themselves what they own.
 */
#ifndef HOMEFREE_NEIGHBOURS_H
#define HOMEFREE_NEIGHBOURS_H

#include "dynlink.h"

/* Looks at a newly loaded object; registers the allocator that it exports, if it is one that can be
 * asked. The object is pinned, because its functions may be called from now on. Called in a routing
 * pass, under the loader's lock. */
void hf_neighbour_look(const struct hf_object *object);

#endif
