/*
 * Structs that cross the ABI begin with `size_t size`, set by the caller to the size it was
 * compiled with. One helper, so that the rule is kept in one place: a caller's unknown fields are
 * not written, and its `size` is left as it was.
 */
#ifndef HOMEFREE_SIZED_H
#define HOMEFREE_SIZED_H

#include <stddef.h>
#include <string.h>

/* Copies our struct to the caller's, as much of it as the caller has. Both begin with their size.
 */
static inline void hf_sized_copy(void *callers, const void *ours, size_t ours_size)
{
    size_t theirs_size;
    memcpy(&theirs_size, callers, sizeof theirs_size);
    size_t size = theirs_size < ours_size ? theirs_size : ours_size;
    if (size > sizeof(size_t))
        memcpy((char *)callers + sizeof(size_t), (const char *)ours + sizeof(size_t),
               size - sizeof(size_t));
}

#endif
