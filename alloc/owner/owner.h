/*
 * Who owns an address.
 */
#ifndef HOMEFREE_OWNER_H
#define HOMEFREE_OWNER_H

#include <homefree/homefree.h>

/* hf_owner_of() by what this copy knows itself, in a copy that has started. */
int hf_owner_of_here(const void *ptr, struct hf_owner *out);

#endif
