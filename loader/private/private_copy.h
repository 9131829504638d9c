/*
 * Private copies: each is a loaded object of its own with its own globals. Users call
 * hf_private_copy() and hf_private_remove() (homefree/private.h), on any thread but not under the
 * loader's lock.
 */
#ifndef HOMEFREE_PRIVATE_COPY_H
#define HOMEFREE_PRIVATE_COPY_H

#include "alloc/base/dynlink.h"

/* Returns the original's folder, which $ORIGIN stands for, if the object is a private copy stored
 * in another folder; NULL otherwise. Takes no lock; the string is permanent. */
const char *hf_copy_folder(const struct link_map *map);

#endif
