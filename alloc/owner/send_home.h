/*
 * Sends a foreign pointer home: calls the allocator that owns it (foreign.h says which), looks at
 * what nobody owns first (static_data.h), and tells a watch.
 */
#ifndef HOMEFREE_SEND_HOME_H
#define HOMEFREE_SEND_HOME_H

#include "alloc/owner/foreign.h"

/* Part of libhomefree's start (start/start.h). Before it, libc judges what nobody owns. */
void hf_send_home_start(void);

/* Send a foreign allocator's block home; `caller` is named where that cannot be done, which ends
 * the process. A block is resized by its owner, or else moved to libc's memory. */
void hf_foreign_call_free(const struct hf_foreign_allocator *allocator, void *ptr,
                          const void *caller);
void *hf_foreign_call_realloc(const struct hf_foreign_allocator *allocator, void *ptr, size_t size,
                              const void *caller);
size_t hf_foreign_call_usable_size(const struct hf_foreign_allocator *allocator, const void *ptr,
                                   const void *caller);

/* For a foreign pointer, not NULL. */
void *hf_realloc_foreign(void *ptr, size_t size, const void *caller);
size_t hf_usable_size_foreign(const void *ptr);

#endif
