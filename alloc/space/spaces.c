/*
 * Owns nothing yet: a stand-in that has no space.
 */
#include "alloc/space/spaces.h"

#include <errno.h>

static int no_alloc(void **out, enum hf_space_kind kind, int device, size_t size, size_t alignment,
                    void *stream)
{
    (void)out, (void)kind, (void)device, (void)size, (void)alignment, (void)stream;
    return -ENODEV;
}
static int no_free(void *ptr, void *stream)
{
    (void)stream;
    hf_free(ptr);
    return 0;
}
static int no_use(void *ptr, void *stream)
{
    (void)ptr, (void)stream;
    return -EINVAL;
}
static int no_of(const void *ptr, struct hf_space *out)
{
    (void)ptr, (void)out;
    return -ENOENT;
}
static int no_stats(enum hf_space_kind kind, int device, void *stream, struct hf_space_stats *out)
{
    (void)kind, (void)device, (void)stream, (void)out;
    return -ENOENT;
}
static int no_limit(enum hf_space_kind kind, int device, uint64_t bytes)
{
    (void)kind, (void)device, (void)bytes;
    return -ENODEV;
}
static int no_trim(enum hf_space_kind kind, int device, uint64_t keep, uint64_t *released)
{
    (void)kind, (void)device, (void)keep, (void)released;
    return -ENODEV;
}
static int no_reason(enum hf_space_kind kind, int device, char *text, size_t size)
{
    (void)kind, (void)device, (void)text, (void)size;
    return -EINVAL;
}

const struct hf_space_functions hf_spaces_here = {
    .alloc = no_alloc,
    .free = no_free,
    .use = no_use,
    .of = no_of,
    .stats = no_stats,
    .limit = no_limit,
    .trim = no_trim,
    .reason = no_reason,
};
