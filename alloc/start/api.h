/*
 * The functions that the heap's copy offers to other copies, and entry points that are not
 * exported. Owns nothing; any thread, at any stage.
 */
#ifndef HOMEFREE_API_H
#define HOMEFREE_API_H

#include "alloc/heap/instance.h"

/* Functions that other copies call in this one; excludes loader/'s. */
extern const struct hf_instance_functions hf_api_functions __attribute__((visibility("hidden")));

/* hf_realloc() for code that calls on another object's behalf. caller: an address in that
 * object. */
void *hf_realloc_for(void *ptr, size_t size, const void *caller);

#endif
