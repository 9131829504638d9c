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

/*
 * For routed calls of CUDA's functions that give memory back. Frees a pointer of a space, or one of
 * the heap, and returns true with CUDA's result for the caller; false: the pointer is not
 * homefree's. HF_SPACE_UNREGISTERS, as the stream: the call ends a registration, of which spaces
 * have none that is a caller's. Calls nothing of CUDA's, but to mark a stream.
 */
bool hf_spaces_freed(void *ptr, void *stream, const void *caller, int *result);
#define HF_SPACE_UNREGISTERS ((void *)(intptr_t)-3)
#define HF_SPACE_UNMAPS      ((void *)(intptr_t)-4) /* the same for a mapping */

/* A stage of libhomefree's start (start/start.h). */
void hf_spaces_start(void);

/* loader/ hands in, from its constructor, the function by which routed calls begin to ask who owns
 * a foreign pointer; called when the first device's memory is reserved. */
void hf_spaces_offer_asking(void (*begin)(void));

#endif
