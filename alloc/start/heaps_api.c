/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The exported functions of homefree/heap.h, which every instance of libhomefree forwards to the
 * heap's copy. Owns nothing, takes no lock. Callable at any stage.
 */
#include "alloc/heap/instance.h"

#include <errno.h>

/* NULL if there are no heaps of one's own. */
static const struct hf_heaps_functions *heaps(void)
{
    const struct hf_instance_functions *other = hf_instance_other();
    return other != NULL ? other->heaps != NULL ? other->heaps() : NULL : hf_heaps();
}

int hf_heap_new(struct hf_heap **out)
{
    const struct hf_heaps_functions *functions = heaps();
    if (out == NULL)
        return -EINVAL;
    return functions != NULL ? functions->make(out) : -ENOTSUP;
}

int hf_heap_drop(struct hf_heap *heap)
{
    const struct hf_heaps_functions *functions = heaps();
    if (heap == NULL)
        return 0;
    return functions != NULL ? functions->drop(heap) : -EINVAL;
}

static void *take(struct hf_heap *heap, size_t alignment, size_t size, bool zeroed,
                  const void *caller)
{
    const struct hf_heaps_functions *functions = heaps();
    if (functions != NULL)
        return functions->take(heap, alignment, size, zeroed, caller);
    errno = ENOTSUP;
    return NULL;
}

void *hf_heap_malloc(struct hf_heap *heap, size_t size)
{
    return take(heap, 0, size, false, __builtin_return_address(0));
}

void *hf_heap_zalloc(struct hf_heap *heap, size_t size)
{
    return take(heap, 0, size, true, __builtin_return_address(0));
}

void *hf_heap_memalign(struct hf_heap *heap, size_t alignment, size_t size)
{
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
        errno = EINVAL;
        return NULL;
    }
    return take(heap, alignment, size, false, __builtin_return_address(0));
}

int hf_heap_walk(const struct hf_heap *heap, hf_heap_visitor *visit, void *context)
{
    const struct hf_heaps_functions *functions = heaps();
    if (visit == NULL)
        return -EINVAL;
    return functions != NULL ? functions->walk(heap, visit, context) : -ENOTSUP;
}
