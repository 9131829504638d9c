/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See large.h. Owns the records of large blocks, of which there are as many as there ever were
 * blocks at a time, and the entries that lead to them.
 *
 * Which entries: that of the unit where the block starts, and of those units, wholly inside the
 * block, that follow when one adds the lowest set bit of a unit's number again and again, as in a
 * binary indexed tree. From any unit of the block, clearing lowest set bits leads to one of them:
 * so what holds an address is found in a step for each bit, and a block needs as few entries.
 *
 * Entries stay when a block ends, until somebody else sets them: the record tells whether its block
 * is live, and where it is. So a pointer that is freed again is told as such for a while.
 */
#include "alloc/spans/large.h"

#include "alloc/heap/region.h"
#include "alloc/pages/pages.h"
#include "alloc/pages/present.h"
#include "alloc/spans/large_cache.h"
#include "alloc/spans/large_record.h"
#include "alloc/spans/limited.h"
#include "alloc/spans/metadata.h"
#include "alloc/spans/span.h"

#include <string.h>
#include <sys/mman.h>

#define PAGE   ((size_t)1 << HF_LG_PAGE)
#define STATES ((uintptr_t)HF_LARGE_LIVE)
/* Up to here, clearing memory that is present takes less time than fresh pages do. */
#define CLEARED_MAX ((size_t)1 << 20)
/* Smaller blocks are copied. */
#define MOVED_MIN ((size_t)1 << 20)
/* As much of a block may be more than was asked for. */
#define SLACK_MAX ((size_t)1 << 20)

/* ---- records ---- */

struct chunk {
    struct chunk *next;
    struct hf_large records[15] __attribute__((aligned(64)));
};

static struct chunk *chunks; /* atomic; chunks are only added, with the spans' lock */
static struct hf_large_stack unused, deferred;

static bool make_records(void)
{
    hf_spans_lock();
    struct chunk *chunk = hf_metadata_take(sizeof *chunk);
    if (chunk != NULL) {
        chunk->next = chunks;
        __atomic_store_n(&chunks, chunk, __ATOMIC_RELEASE);
    }
    hf_spans_unlock();
    if (chunk == NULL)
        return false;
    for (size_t i = 0; i < sizeof chunk->records / sizeof chunk->records[0]; i++)
        hf_large_stack_push(&unused, &chunk->records[i]);
    return true;
}

static struct hf_large *new_record(void)
{
    struct hf_large *record;
    while ((record = hf_large_stack_pop(&unused)) == NULL && make_records())
        ;
    return record;
}

static uintptr_t start_of(uintptr_t word)
{
    return word & ~STATES;
}

static void set_word(struct hf_large *block, uintptr_t start, enum hf_large_state state)
{
    __atomic_store_n(&block->word, start + state, __ATOMIC_RELEASE);
}

static bool change(struct hf_large *block, const void *ptr, enum hf_large_state from,
                   enum hf_large_state to)
{
    uintptr_t word = (uintptr_t)ptr + from;
    return __atomic_compare_exchange_n(&block->word, &word, (uintptr_t)ptr + to, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* ---- entries ---- */

static struct hf_large *record_of(const struct hf_entry *entry)
{
    if (__atomic_load_n(&entry->owner, __ATOMIC_ACQUIRE) != HF_LARGE_OWNER)
        return NULL;
    return __atomic_load_n(&entry->large, __ATOMIC_RELAXED);
}

static void set_entry(struct hf_entry *entry, struct hf_large *block)
{
    __atomic_store_n(&entry->large, block, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->owner, HF_LARGE_OWNER, __ATOMIC_RELEASE);
}

/* Sets the entries of the block behind the first one, from one size of the block up to another. */
static void set_entries(uintptr_t start, size_t from, size_t to, struct hf_large *block)
{
    uintptr_t unit = start >> HF_LG_UNIT;
    for (unit += unit & -unit; unit < (start + to) >> HF_LG_UNIT; unit += unit & -unit)
        if (unit >= (start + from) >> HF_LG_UNIT)
            set_entry(&hf_entry_table[unit], block);
}

/* ---- taking and giving back ---- */

/* Bytes that come straight from the region. */
static size_t moved_bytes;

static void count_moved(const struct hf_large *block, size_t more)
{
    if (block->moved)
        __atomic_add_fetch(&moved_bytes, more, __ATOMIC_RELAXED);
}

/* Makes the block's size what it needs, and lends it the rest of what it has, for its growth. */
static void lend(struct hf_large *block, size_t size)
{
    hf_large_cache_lent((ptrdiff_t)(block->size - size));
    __atomic_store_n(&block->size, size, __ATOMIC_RELAXED);
}

/* A block of pages that somebody gave; none if they are NULL. */
static struct hf_large *begin(struct hf_large *block, char *ptr, size_t size, bool moved)
{
    if (ptr == NULL) {
        hf_large_stack_push(&unused, block);
        return NULL;
    }
    block->moved = moved;
    block->capacity = size;
    __atomic_store_n(&block->size, size, __ATOMIC_RELAXED);
    set_word(block, (uintptr_t)ptr, HF_LARGE_KEPT);
    set_entry(hf_entry_of(ptr), block);
    set_entries((uintptr_t)ptr, 0, size, block);
    hf_large_cache_held((ptrdiff_t)size);
    count_moved(block, size);
    return block;
}

static struct hf_large *new_block(size_t size, size_t alignment, bool zeroed)
{
    const size_t usable = hf_pages_size(size);
    struct hf_large *block = usable != 0 ? new_record() : NULL;
    return block != NULL ? begin(block, hf_pages_take(usable, alignment, zeroed), usable, false)
                         : NULL;
}

static void give_pages(char *ptr, size_t size, bool moved)
{
    if (moved)
        (void)hf_region_unmap(ptr, size);
    else
        hf_pages_give(ptr, size);
}

static void end(struct hf_large *block)
{
    const uintptr_t start = start_of(block->word);
    const size_t size = block->capacity;
    const bool moved = block->moved;
    lend(block, size);
    hf_large_cache_held(-(ptrdiff_t)size);
    count_moved(block, -size);
    set_word(block, start, HF_LARGE_GONE);
    hf_large_stack_push(&unused, block);
    give_pages((char *)start, size, moved);
}

/* Makes a block the program's. */
static void *hand_out(struct hf_large *block, size_t asked, struct hf_heap *heap)
{
    const uintptr_t start = start_of(block->word);
    __atomic_store_n(&block->asked, asked, __ATOMIC_RELAXED);
    block->heap = heap;
    block->sampled = false;
    block->limit = 0;
    set_word(block, start, HF_LARGE_LIVE);
    return (void *)start;
}

/* Takes a block back that is the program's no longer. */
static void keep_or_end(struct hf_large *block)
{
    lend(block, block->capacity);
    if (!hf_large_cache_give(block))
        end(block);
}

void *hf_large_take(size_t size, size_t alignment, bool zeroed)
{
    const size_t asked = size;
    const bool fresh = alignment > PAGE || (zeroed && size > CLEARED_MAX);
    size = size > HF_LARGEST ? size : HF_LARGEST + 1;
    struct hf_large *block = fresh ? NULL : hf_large_cache_take(size, size + size / 4);
    const bool clear = zeroed && block != NULL;
    if (block == NULL)
        block = new_block(size, alignment > PAGE ? alignment : PAGE, zeroed);
    if (block == NULL)
        return NULL;
    void *ptr = hand_out(block, asked, NULL);
    return clear ? memset(ptr, 0, block->size) : ptr;
}

/* What is wrong with a pointer as a live block's first byte. */
static int wrong_of(const void *ptr, const struct hf_large *block)
{
    const void *start;
    if (block != NULL &&
        start_of(__atomic_load_n(&block->word, __ATOMIC_RELAXED)) == (uintptr_t)ptr)
        return HF_CORRUPT_FREED;
    return hf_large_holds(ptr, &start) != 0 ? HF_CORRUPT_INSIDE : HF_CORRUPT_NO_BLOCK;
}

int hf_large_give(void *ptr)
{
    struct hf_large *block = record_of(hf_entry_of(ptr));
    if (HF_UNLIKELY(block == NULL) ||
        HF_UNLIKELY(!change(block, ptr, HF_LARGE_LIVE, HF_LARGE_KEPT)))
        return wrong_of(ptr, block);
    keep_or_end(block);
    return -1;
}

int hf_large_defer(const void *ptr, const void *caller)
{
    struct hf_large *block = record_of(hf_entry_of(ptr));
    if (block == NULL || !change(block, ptr, HF_LARGE_LIVE, HF_LARGE_BUSY))
        return wrong_of(ptr, block);
    block->caller = caller;
    hf_large_stack_push(&deferred, block);
    return -1;
}

void *hf_large_resume(const void **caller)
{
    struct hf_large *block = hf_large_stack_pop(&deferred);
    if (block == NULL)
        return NULL;
    const uintptr_t start = start_of(block->word);
    *caller = block->caller;
    set_word(block, start, HF_LARGE_LIVE);
    return (void *)start;
}

bool hf_large_is_deferred(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return hf_large_stack_top(__atomic_load_n(&deferred.head, __ATOMIC_RELAXED)) != NULL;
}

/* ---- resizing ---- */

static bool resize_pages(const struct hf_large *block, char *start, size_t size)
{
    const size_t before = block->capacity;
    if (!block->moved)
        return hf_pages_resize(start, before, size);
    return size < before ? hf_region_unmap(start + size, before - size) == 0
                         : hf_region_extend(start, before, size - before);
}

/* Makes a block that is BUSY larger or smaller where it lies. A little less is no change. */
static bool resize_here(struct hf_large *block, uintptr_t start, size_t size)
{
    const size_t before = block->capacity, less = size < block->size ? block->size - size : 0;
    if (size <= block->size && less <= block->size / 4 && less <= SLACK_MAX)
        return true;
    if (less != 0 || size > before) {
        if (!resize_pages(block, (char *)start, size))
            return false;
        set_entries(start, before, size, block);
        lend(block, before);
        block->capacity = size;
        hf_large_cache_held((ptrdiff_t)(size - before));
        count_moved(block, size - before);
        __atomic_store_n(&block->size, size, __ATOMIC_RELAXED);
        return true;
    }
    lend(block, size);
    return true;
}

/* Gets a new block that has the old one's pages, and ends that. The new one's addresses come from
 * the region: pages that are present there would be lost. At multiples of 2 MiB the kernel moves
 * whole tables. NULL: nothing has changed. */
static struct hf_large *move(struct hf_large *block, uintptr_t start, size_t size)
{
    struct hf_large *record = new_record();
    if (record == NULL)
        return NULL;
    char *to = hf_region_map_aligned(size, HF_PAGE_2M, PROT_READ | PROT_WRITE);
    if (begin(record, to != MAP_FAILED ? to : NULL, size, true) == NULL)
        return NULL;
    if (HF_UNLIKELY(!hf_region_move(to, size, (char *)start, block->size)) && !block->moved) {
        block->moved = true; /* only its addresses can go back */
        count_moved(block, block->size);
    }
    end(block);
    return record;
}

/* The same by copying, into a block from the cache or a new one. */
static struct hf_large *copy(struct hf_large *block, uintptr_t start, struct hf_large *to)
{
    if (to == NULL)
        return NULL;
    memcpy((void *)start_of(to->word), (void *)start, block->size);
    set_word(block, start, HF_LARGE_KEPT);
    keep_or_end(block);
    return to;
}

/* Makes room for a block that is BUSY and cannot grow where it lies. */
static struct hf_large *grow(struct hf_large *block, uintptr_t start, size_t size)
{
    struct hf_large *kept = hf_large_cache_take_growing(size);
    if (kept != NULL) {
        lend(kept, size);
        return copy(block, start, kept);
    }
    return block->size >= MOVED_MIN && hf_region_can_move(block->size)
               ? move(block, start, size)
               : copy(block, start, new_block(size, PAGE, false));
}

/* A block that grows by little will use it soon: many pages at once take less time than a fault for
 * each. */
static void make_present(char *start, size_t from, size_t to)
{
    enum { LEAST = 32 << 10 };
    from = (from + PAGE - 1) & -PAGE;
    if (to < from + LEAST ||
        to - from > hf_present_ahead(from, hf_pages_taken() +
                                               __atomic_load_n(&moved_bytes, __ATOMIC_RELAXED)) /
                        2)
        return;
    for (; from < to; from += HF_PRESENT_MOST)
        hf_present_make(start + from, to - from);
}

void *hf_large_resize(void *ptr, size_t size)
{
    struct hf_large *block = record_of(hf_entry_of(ptr));
    const uintptr_t start = (uintptr_t)ptr;
    const size_t usable = size > HF_LARGEST ? hf_pages_size(size) : 0;
    if (usable == 0 || block == NULL || !change(block, ptr, HF_LARGE_LIVE, HF_LARGE_BUSY))
        return NULL;
    struct hf_heap *heap = block->heap;
    struct hf_large *resized = block;
    const size_t asked = block->asked;
    if (!resize_here(block, start, usable))
        resized = usable > block->size ? grow(block, start, usable) : NULL;
    if (resized == NULL) {
        set_word(block, start, HF_LARGE_LIVE);
        return NULL;
    }
    if (size > asked)
        make_present((char *)start_of(resized->word), asked, size);
    return hand_out(resized, size, heap);
}

/* ---- looking ---- */

size_t hf_large_check(const void *ptr, int *wrong)
{
    const struct hf_large *block = record_of(hf_entry_of(ptr));
    *wrong = -1;
    if (HF_LIKELY(block != NULL) && HF_LIKELY(__atomic_load_n(&block->word, __ATOMIC_ACQUIRE) ==
                                              (uintptr_t)ptr + HF_LARGE_LIVE))
        return __atomic_load_n(&block->size, __ATOMIC_RELAXED);
    *wrong = wrong_of(ptr, block);
    return 0;
}

size_t hf_large_asked(const void *ptr)
{
    return __atomic_load_n(&record_of(hf_entry_of(ptr))->asked, __ATOMIC_RELAXED);
}

static struct hf_large *holder(const void *ptr)
{
    const void *start;
    return hf_large_holds(ptr, &start) != 0 ? record_of(hf_entry_of(start)) : NULL;
}

struct hf_heap *hf_large_heap(const void *ptr)
{
    const struct hf_large *block = holder(ptr);
    return block != NULL ? block->heap : NULL;
}

void hf_large_set_heap(const void *ptr, struct hf_heap *heap)
{
    holder(ptr)->heap = heap;
}

bool hf_large_set_sampled(const void *ptr, bool sampled)
{
    struct hf_large *block = holder(ptr);
    return block != NULL && __atomic_load_n(&block->sampled, __ATOMIC_RELAXED) != sampled &&
           __atomic_exchange_n(&block->sampled, sampled, __ATOMIC_ACQ_REL) != sampled;
}

int hf_large_limit(const void *ptr, uint64_t *bytes)
{
    const struct hf_large *block = holder(ptr);
    *bytes = block != NULL ? hf_limited_large(__atomic_load_n(&block->asked, __ATOMIC_RELAXED)) : 0;
    return block != NULL ? __atomic_load_n(&block->limit, __ATOMIC_RELAXED) - 1 : -1;
}

void hf_large_set_limit(const void *ptr, int limit)
{
    struct hf_large *block = holder(ptr);
    if (block != NULL)
        __atomic_store_n(&block->limit, (uint8_t)(limit + 1), __ATOMIC_RELAXED);
}

/* The size and first byte of a record's block; 0 if it is not live. */
static size_t look(const struct hf_large *block, const void **ptr)
{
    const uintptr_t word = __atomic_load_n(&block->word, __ATOMIC_ACQUIRE);
    const size_t size = __atomic_load_n(&block->size, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    *ptr = (const void *)start_of(word);
    return (word & STATES) >= HF_LARGE_BUSY &&
                   start_of(__atomic_load_n(&block->word, __ATOMIC_RELAXED)) == start_of(word)
               ? size
               : 0;
}

static size_t holds_from(uintptr_t unit, const void *ptr, const void **start)
{
    for (; unit >= hf_region.base >> HF_LG_UNIT; unit &= unit - 1) {
        const struct hf_large *block = record_of(&hf_entry_table[unit]);
        const size_t size = block != NULL ? look(block, start) : 0;
        if ((uintptr_t)ptr - (uintptr_t)*start < size)
            return size;
    }
    *start = NULL;
    return 0;
}

/* The address may lie in the same unit as the start of the next block: then the unit before is
 * wholly inside the block, or its first. */
size_t hf_large_holds(const void *ptr, const void **block)
{
    const uintptr_t unit = (uintptr_t)ptr >> HF_LG_UNIT;
    *block = NULL;
    const size_t size = holds_from(unit, ptr, block);
    return size != 0 ? size : holds_from(unit - 1, ptr, block);
}

bool hf_large_each(bool (*visit)(void *context, const void *ptr, size_t size), void *context)
{
    for (const struct chunk *chunk = __atomic_load_n(&chunks, __ATOMIC_ACQUIRE); chunk != NULL;
         chunk = chunk->next)
        for (size_t i = 0; i < sizeof chunk->records / sizeof chunk->records[0]; i++) {
            const void *ptr;
            const size_t size = look(&chunk->records[i], &ptr);
            if (size != 0 && !visit(context, ptr, size))
                return false;
        }
    return true;
}

void hf_large_trim(void)
{
    hf_large_cache_trim(false, end);
}

void hf_large_empty(void)
{
    hf_large_cache_trim(true, end);
}

static bool count(void *context, const void *ptr, size_t size)
{
    struct hf_large_count *sum = context;
    (void)ptr;
    sum->live += size;
    sum->blocks++;
    return true;
}

struct hf_large_count hf_large_count(void)
{
    struct hf_large_count sum = {
        .kept = hf_large_cache_kept(),
        .moved = __atomic_load_n(&moved_bytes, __ATOMIC_RELAXED),
    };
    (void)hf_large_each(count, &sum);
    return sum;
}
