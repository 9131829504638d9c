/*
 * What the copy that is the heap offers to others, and the entry points that are not exported.
 */
#ifndef HOMEFREE_API_H
#define HOMEFREE_API_H

#include "alloc/heap/instance.h"

/* What other copies call of this one; without loader/'s functions. */
extern const struct hf_instance_functions hf_api_functions __attribute__((visibility("hidden")));

/* hf_realloc() for code that calls on somebody's behalf; caller: an address in whose code it is. */
void *hf_realloc_for(void *ptr, size_t size, const void *caller);

#endif
