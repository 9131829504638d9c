/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tcmalloc's class MallocExtension (gperftools/malloc_extension.h) for adopted modules: an object
 * that answers for the heap, or as the class does that knows of no allocator. Its table of virtual
 * functions has the order of that header, to which new ones were only ever added.
 *
 * Owns: constant data. Any thread.
 */
#include "loader/adopt/handlers.h"

#include <string.h>

enum { OWNED = 1, NOT_OWNED = 2, HISTOGRAM = 64 };

static bool is_valid(const void *self)
{
    (void)self;
    return true;
}

int hf_adopted_count_blocks(int *blocks, size_t *total, int *histogram)
{
    *blocks = 0;
    *total = 0;
    memset(histogram, 0, HISTOGRAM * sizeof *histogram);
    return 1;
}

static bool count_blocks(const void *self, int *blocks, size_t *total, int *histogram)
{
    (void)self;
    return hf_adopted_count_blocks(blocks, total, histogram);
}

void hf_adopted_describe(char *buffer, int size)
{
    if (size > 0)
        buffer[0] = '\0';
}

static void describe(const void *self, char *buffer, int size)
{
    (void)self;
    hf_adopted_describe(buffer, size);
}

static double release_rate(const void *self)
{
    (void)self;
    return -1; /* it cannot be set */
}

static size_t estimated_size(const void *self, size_t size)
{
    (void)self;
    return size;
}

static size_t allocated_size(const void *self, void *ptr)
{
    (void)self;
    return hf_usable_size(ptr);
}

int hf_adopted_ownership(const void *ptr)
{
    return hf_owns(ptr) ? OWNED : NOT_OWNED;
}

static int ownership(const void *self, const void *ptr)
{
    (void)self;
    return hf_adopted_ownership(ptr);
}

#define NOTHING (const void *)hf_adopted_nothing

const void *hf_adopted_malloc_extension(void)
{
    static const struct {
        ptrdiff_t offset_to_top;
        const void *type;
        const void *functions[40];
    } table = {
        .functions =
            {
                [0 ... 1] = NOTHING,                /* destructors */
                [2 ... 5] = (const void *)is_valid, /* Verify… */
                [6] = (const void *)count_blocks,   /* MallocMemoryStats */
                [7] = (const void *)describe,       /* GetStats */
                [8 ... 10] = NOTHING,               /* GetHeapSample, GetHeapGrowthStacks, Ranges */
                [11 ... 12] = NOTHING,              /* GetNumericProperty, SetNumericProperty */
                [13 ... 14] = NOTHING,              /* MarkThreadIdle, MarkThreadBusy */
                [15 ... 16] = NOTHING,              /* GetSystemAllocator, SetSystemAllocator */
                [17 ... 19] = NOTHING,              /* Release…, SetMemoryReleaseRate */
                [20] = (const void *)release_rate,  /* GetMemoryReleaseRate */
                [21] = (const void *)estimated_size, /* GetEstimatedAllocatedSize */
                [22] = (const void *)allocated_size, /* GetAllocatedSize */
                [23] = (const void *)ownership,      /* GetOwnership */
                [24 ... 26] = NOTHING,               /* GetFreeListSizes, Read…StackTraces */
                [27 ... 28] = NOTHING, /* GetThreadCacheSize, MarkThreadTemporarilyIdle */
                [29 ... 39] = NOTHING, /* of later versions */
            },
    };
    static const void *const object[64] = {table.functions};
    return object;
}
