/*
 * Owns the list of neighbours: appended to under routing's lock, read without one. May be called at
 * any stage; before the first neighbour is known it costs one load.
 */
#include "foreign.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>

static struct hf_neighbour neighbours[HF_NEIGHBOURS_MAX];
static atomic_size_t neighbours_count;

static const struct hf_libc libc = {malloc, calloc, memalign, realloc, free, malloc_usable_size};

const struct hf_libc *hf_libc(void)
{
    return &libc;
}

int hf_neighbour_add(const struct hf_neighbour *neighbour)
{
    size_t count = atomic_load_explicit(&neighbours_count, memory_order_relaxed);
    if (count == HF_NEIGHBOURS_MAX)
        return -ENOSPC;
    neighbours[count] = *neighbour;
    atomic_store_explicit(&neighbours_count, count + 1, memory_order_release);
    return 0;
}

const struct hf_neighbour *hf_neighbour_of(const void *ptr)
{
    size_t count = atomic_load_explicit(&neighbours_count, memory_order_acquire);
    for (size_t i = 0; HF_UNLIKELY(i < count); i++)
        if (neighbours[i].owns(&neighbours[i], ptr))
            return &neighbours[i];
    return NULL;
}

void hf_free_foreign(void *ptr)
{
    if (ptr == NULL)
        return;
    /* The first call of all may be a free: only a started copy knows the region. */
    if (HF_UNLIKELY(hf_region.size == 0)) {
        hf_heap_start();
        if (hf_owned(ptr)) {
            hf_free(ptr);
            return;
        }
    }
    const struct hf_neighbour *neighbour = hf_neighbour_of(ptr);
    if (HF_UNLIKELY(neighbour != NULL))
        neighbour->free(ptr);
    else
        libc.free(ptr);
}

void *hf_foreign_realloc(void *ptr, size_t size)
{
    const struct hf_neighbour *neighbour = hf_neighbour_of(ptr);
    return neighbour != NULL ? neighbour->realloc(ptr, size) : libc.realloc(ptr, size);
}

size_t hf_foreign_usable_size(const void *ptr)
{
    const struct hf_neighbour *neighbour = hf_neighbour_of(ptr);
    if (neighbour == NULL)
        return libc.usable_size((void *)(uintptr_t)ptr);
    return neighbour->usable_size != NULL ? neighbour->usable_size(ptr) : 0;
}
