/*
 * Frees that do not say which stream used a block: free(), realloc(), hf_free() and the like. Owns
 * what owners.c says.
 */
#ifndef HOMEFREE_SPACE_OWNERS_H
#define HOMEFREE_SPACE_OWNERS_H

#include <homefree/homefree.h>

/* hf_owner_of() of what owner/owner.h does not know: memory that CUDA gave to somebody else. Asks
 * the driver if a runtime was found; loads nothing. */
void hf_spaces_describe_other(const void *ptr, struct hf_owner *owner);

/* A stage of libhomefree's start (start/start.h). */
void hf_spaces_start(void);

/* loader/ hands in, from its constructor, the function by which routed calls begin to ask who owns
 * a foreign pointer; called when the first device's memory is reserved. */
void hf_spaces_offer_asking(void (*begin)(void));

#endif
