/*
 * The functions of homefree/space.h without forwarding: what the copy that is the heap does, and
 * offers to other copies. Those that allocate and free tell open watches (trace/watch.h). Owns
 * nothing.
 */
#ifndef HOMEFREE_SPACES_H
#define HOMEFREE_SPACES_H

#include <homefree/homefree.h>

/* Append only (heap/instance.h). */
struct hf_space_functions {
    int (*alloc)(void **out, enum hf_space_kind kind, int device, size_t size, size_t alignment,
                 void *stream);
    int (*free)(void *ptr, void *stream);
    int (*use)(void *ptr, void *stream);
    int (*of)(const void *ptr, struct hf_space *out);
    int (*stats)(enum hf_space_kind kind, int device, void *stream, struct hf_space_stats *out);
    int (*limit)(enum hf_space_kind kind, int device, uint64_t bytes);
    int (*trim)(enum hf_space_kind kind, int device, uint64_t keep, uint64_t *released);
    int (*reason)(enum hf_space_kind kind, int device, char *text, size_t size);
    int (*order)(int device, void *before, void *after);
};
extern const struct hf_space_functions hf_spaces_here __attribute__((visibility("hidden")));

/* The same for this copy's callers. caller: an address in the calling code, for watches. A pointer
 * that is in no space goes to hf_free(). */
int hf_space_alloc_for(void **out, enum hf_space_kind kind, int device, size_t size,
                       size_t alignment, void *stream, const void *caller);
int hf_space_free_for(void *ptr, void *stream, const void *caller);

#endif
