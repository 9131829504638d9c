/*
 * What the guards of release-only copies ask (loader/hidden/release_only.h). Copies refer to it by
 * name, so the name keeps its meaning for ever.
 *
 * Owns: nothing. Callable at any stage, from any thread; takes no lock of the heap. Since 1.0.
 */
#ifndef HOMEFREE_GUARD_QUESTION_H
#define HOMEFREE_GUARD_QUESTION_H

#include <homefree/homefree.h>

/* Whether a block belongs to another allocator than the one in the object that calls: to the heap,
 * to libc, or to an allocator in another object. False for NULL, and where nobody knows. */
HF_API bool hf_adopted_elsewhere(const void *block);

#endif
