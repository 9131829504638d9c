/*
 * Private copies: a loaded object of its own for each, with globals of its own. Users call
 * hf_private_copy() and hf_private_remove() (homefree/private.h).
 */
#ifndef HOMEFREE_PRIVATE_COPY_H
#define HOMEFREE_PRIVATE_COPY_H

#include "alloc/base/dynlink.h"

/* The folder of the file that an object is a private copy of, if the copy lies in another one: what
 * $ORIGIN means for it. NULL for every other object. Lock-free; the string lives on. */
const char *hf_copy_folder(const struct link_map *map);

#endif
