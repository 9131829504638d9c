/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See interpreter_memory.h. mincore() tells what is resident. A block of at most HF_FAST_MAX counts
 * as resident, because it shares its pages.
 */
#include "loader/host/interpreter_memory.h"

#include "alloc/heap/internal.h"
#include "loader/host/arena_owners.h"
#include "loader/host/interpreter_heaps.h"
#include "loader/host/pymalloc.h"

#include <sys/mman.h>
#include <unistd.h>

enum { PIECE = 1024 }; /* pages that are asked for at once */

struct measured {
    struct hf_interpreter_memory *rows;
    const struct hf_heap **heaps; /* of each row */
    size_t count, page;
    size_t by_limit[HF_LIMITS_COUNT]; /* whose row; `count`: nobody's */
};

/* Bytes of whole pages of a range that are resident. */
static size_t resident_in(uintptr_t start, uintptr_t end, size_t page)
{
    unsigned char present[PIECE];
    size_t bytes = 0;
    while (start < end) {
        const size_t most = PIECE * page, part = end - start < most ? end - start : most;
        if (mincore((void *)start, part, present) == 0)
            for (size_t i = 0; i < part / page; i++)
                bytes += (present[i] & 1) != 0 ? page : 0;
        start += part;
    }
    return bytes;
}

/* Nothing is read of pages that nobody has written: that would make them present. */
static void add_arena(void *context, const void *arena, int64_t interpreter)
{
    const struct measured *measured = context;
    const size_t size = hf_pymalloc_arena_size(), page = measured->page;
    unsigned char present[PIECE];
    size_t i = 0;
    while (i < measured->count && measured->rows[i].id != interpreter)
        i++;
    if (i == measured->count || size / page > PIECE ||
        mincore((void *)(uintptr_t)arena, size, present) != 0)
        return;
    struct hf_interpreter_memory *row = &measured->rows[i];
    row->arenas += size;
    for (size_t at = 0; at < size / page; at++)
        row->resident += (present[at] & 1) != 0 ? page : 0;
    row->objects += hf_pymalloc_live(arena, present, page);
}

static void add_resident(struct hf_interpreter_memory *row, const void *block, size_t size,
                         size_t page)
{
    const uintptr_t start = (uintptr_t)block;
    row->resident += size <= HF_FAST_MAX
                         ? size
                         : resident_in((start + page - 1) & -page, (start + size) & -page, page);
}

static int add_block(void *context, void *block, size_t size)
{
    const struct measured *measured = context;
    const struct hf_heap *heap = hf_heaps()->holding(block);
    uint64_t bytes;
    const int limit = hf_limited_whose(block, &bytes);
    size_t i = 0;
    while (heap != NULL && i < measured->count && measured->heaps[i] != heap)
        i++;
    const bool is_heaps = heap != NULL && i < measured->count;
    if (!is_heaps)
        i = limit >= 0 ? measured->by_limit[limit] : measured->count;
    if (i == measured->count)
        return 0;
    *(is_heaps ? &measured->rows[i].blocks : &measured->rows[i].counted) += bytes;
    add_resident(&measured->rows[i], block, size, measured->page);
    return 0;
}

bool hf_interpreter_memory_measure(struct hf_interpreter_memory *rows, size_t count)
{
    struct measured measured = {.rows = rows,
                                .heaps = hf_calloc(count, sizeof *measured.heaps),
                                .count = count,
                                .page = (size_t)sysconf(_SC_PAGESIZE)};
    if (measured.heaps == NULL)
        return false;
    for (size_t i = 0; i < HF_LIMITS_COUNT; i++)
        measured.by_limit[i] = count;
    for (size_t i = 0; i < count; i++) {
        unsigned number;
        measured.heaps[i] = hf_interpreter_heap_of(rows[i].id);
        if (hf_interpreter_heap_limit(rows[i].id, &number) != NULL)
            measured.by_limit[number] = i;
    }
    if (hf_pymalloc_arena_size() != 0)
        hf_arena_owners_each(add_arena, &measured);
    if (hf_heaps() != NULL)
        (void)hf_heaps()->walk(NULL, add_block, &measured);
    for (size_t i = 0; i < count; i++)
        rows[i].live = rows[i].objects + rows[i].blocks + rows[i].counted;
    hf_free(measured.heaps);
    return true;
}
