/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See metadata.h. Owns the piece that memory is taken from; the spans' lock guards it.
 */
#include "alloc/spans/metadata.h"

#include "alloc/heap/region.h"

#include <sys/mman.h>

enum { LINE = 64, GUARD = 64 << 10, LEAST = 128 << 10, MOST = 2 << 20 };

static char *next, *end;
static size_t piece = LEAST;
static uint64_t taken;

static char *map_piece(size_t size)
{
    char *at = hf_region_map_aligned(size + GUARD, 1, PROT_NONE);
    if (at == MAP_FAILED)
        return NULL;
    if (hf_region_map(at, size, PROT_READ | PROT_WRITE, MAP_FIXED) == MAP_FAILED) {
        (void)hf_region_unmap(at, size + GUARD);
        return NULL;
    }
    return at;
}

void *hf_metadata_take(size_t size)
{
    size = (size + LINE - 1) & -(size_t)LINE;
    if (HF_UNLIKELY((size_t)(end - next) < size)) {
        const size_t wanted = size > piece ? (size + GUARD - 1) & -(size_t)GUARD : piece;
        char *at = map_piece(wanted);
        if (at == NULL)
            return NULL;
        next = at;
        end = at + wanted;
        if (piece < MOST)
            piece *= 2;
    }
    next += size;
    taken += size;
    return next - size;
}

uint64_t hf_metadata_bytes(void)
{
    return taken;
}
