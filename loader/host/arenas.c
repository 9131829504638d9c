/*
 * Owns the number that these arenas' pages have in the map of other allocators' pages (pagemap.h);
 * given once, under the host's lock, and read without one.
 *
 * Where pymalloc keeps its own list is known to no function of CPython's. It is found from a block:
 * its pool is in a ring with the head of pymalloc's table of pools. Since 3.12 the list of arenas
 * lies behind that table; before, it is a variable of its own, which is recognised by what it
 * points to. Nothing is believed that does not agree with the block that the search began with;
 * where nothing agrees, no arena is known, and such blocks are foreign as they were before.
 */
#include "loader/host/arenas.h"

#include "alloc/base/dynlink.h"
#include "alloc/heap/internal.h"
#include "alloc/owner/hosted.h"
#include "alloc/owner/pagemap.h"

#include <stdatomic.h>

/* pymalloc's arena_object. */
struct arena {
    uintptr_t address; /* 0: not in use */
    uintptr_t next_pool;
    uint32_t free_pools, all_pools;
    void *pools;
    struct arena *next, *previous;
};

#define USED_POOLS 64 /* pointers in pymalloc's table of pools */
#define ARENAS_MAX (1 << 16)

static atomic_uint number;

/* ---- their pages ---- */

void hf_arenas_add(const void *arena, size_t size)
{
    if (number != 0)
        (void)hf_pagemap_set(arena, size, number);
}

void hf_arenas_remove(const void *arena, size_t size)
{
    if (number != 0)
        (void)hf_pagemap_set(arena, size, HF_PAGEMAP_UNKNOWN);
}

bool hf_arenas_publish(const struct hf_foreign_allocator *pymalloc)
{
    if (number != 0)
        return true;
    unsigned reserved = hf_foreign_reserve();
    if (reserved == 0)
        return false;
    hf_foreign_publish(reserved, pymalloc);
    atomic_store(&number, reserved);
    return true;
}

/* ---- finding pymalloc's own list ---- */

struct search {
    const struct hf_cpython *cpython;
    uintptr_t block, pool;
    struct hf_py_pool head;
    size_t arena_size, pool_size;
};

/* Whether a block is one of pymalloc's, in arenas of this size. */
static bool read_pool(struct search *search, uintptr_t block, size_t size)
{
    search->block = block;
    search->arena_size = size;
    search->pool_size = hf_py_pool_size(size);
    search->pool = block & -search->pool_size;
    if (!hf_cpython_read((const void *)search->pool, &search->head, sizeof search->head))
        return false;
    const struct hf_py_pool *head = &search->head;
    return head->count > 0 && head->size_class < 32 &&
           head->last_offset == search->pool_size - ((size_t)head->size_class + 1) * 16 &&
           head->arena < ARENAS_MAX;
}

static bool is_plausible(const struct search *search, const struct arena *arena, uintptr_t table)
{
    if (arena->address == 0)
        return arena->next == NULL || (((uintptr_t)arena->next - table) % sizeof *arena == 0 &&
                                       (uintptr_t)arena->next - table < ARENAS_MAX * sizeof *arena);
    size_t pools = search->arena_size / search->pool_size;
    return arena->address % 4096 == 0 && arena->all_pools <= pools &&
           arena->all_pools + 1 >= pools && arena->free_pools <= arena->all_pools &&
           arena->next_pool - arena->address <= search->arena_size + search->pool_size;
}

/* Whether this is pymalloc's list: the block lies in the arena that its pool names. */
static bool is_table(const struct search *search, uintptr_t table)
{
    struct arena arena;
    return table != 0 && table % 8 == 0 &&
           hf_cpython_read((const void *)(table + search->head.arena * sizeof arena), &arena,
                           sizeof arena) &&
           arena.address != 0 && is_plausible(search, &arena, table) &&
           search->block - arena.address < search->arena_size;
}

/* From 3.12 on: behind the table of pools. */
static uintptr_t behind_pools(const struct search *search)
{
    struct hf_py_pool pool = search->head;
    const struct hf_py_pool *at = pool.next;
    /* The head is the one in the ring that is not at a pool's place. */
    for (size_t steps = 0; (uintptr_t)at % search->pool_size == 0; at = pool.next)
        if (at == NULL || ++steps > 65536 || !hf_cpython_read(at, &pool, sizeof pool))
            return 0;
    uintptr_t pools = (uintptr_t)at + offsetof(struct hf_py_pool, next) -
                      (uintptr_t)search->head.size_class * 2 * sizeof(void *);
    uintptr_t table = 0;
    if (!hf_cpython_read((const void *)(pools + USED_POOLS * sizeof(void *)), &table, sizeof table))
        return 0;
    return table;
}

/* Whether a word near words[i] can be the length of pymalloc's list (it doubles from 16 on), and
 * another one points to an entry of such a list. Both are variables of the same file. */
static bool has_company(const uintptr_t *words, size_t i, size_t all)
{
    enum { NEAR = 8 };
    uintptr_t table = words[i], longest = 0;
    size_t from = i > NEAR ? i - NEAR : 0, to = i + NEAR < all ? i + NEAR : all;
    for (size_t near = from; near < to; near++) {
        uint32_t halves[] = {(uint32_t)words[near], (uint32_t)(words[near] >> 32)};
        for (size_t half = 0; half < 2; half++)
            if (halves[half] >= 16 && halves[half] <= ARENAS_MAX && halves[half] > longest &&
                (halves[half] & (halves[half] - 1)) == 0)
                longest = halves[half];
    }
    for (size_t near = from; longest != 0 && near < to; near++)
        if (near != i && words[near] - table < longest * sizeof(struct arena) &&
            (words[near] - table) % sizeof(struct arena) == 0)
            return true;
    return false;
}

/* Before 3.12: a variable, which is zero when the program starts, so that it lies near the end of
 * the writable data. */
static uintptr_t in_data(const struct search *search)
{
    struct hf_object object;
    const struct link_map *map = search->cpython->map;
    if (!hf_dynlink_open(map, &object))
        return 0;
    hf_object_segments(&object);
    for (size_t segment = object.writable_count; segment-- > 0;) {
        const uintptr_t *words =
            (const uintptr_t *)((object.writable[segment].start + 7) & ~(uintptr_t)7);
        size_t all = (object.writable[segment].size - 7) / sizeof *words;
        for (size_t i = all; i-- > 0;) {
            uintptr_t table = words[i];
            if (table < 65536 || table % 16 != 0 || table >> 47 != 0 ||
                hf_object_writable(&object, table) || !has_company(words, i, all))
                continue;
            if (is_table(search, table))
                return table;
        }
    }
    return 0;
}

static void take_over(const struct search *search, uintptr_t table)
{
    size_t ends = 0;
    for (size_t i = 0; i < ARENAS_MAX && ends < 2; i++) {
        struct arena arena;
        if (!hf_cpython_read((const void *)(table + i * sizeof arena), &arena, sizeof arena) ||
            !is_plausible(search, &arena, table))
            return;
        if (arena.address != 0 && !hf_owned((const void *)arena.address))
            hf_arenas_add((const void *)arena.address, search->arena_size);
        /* The list of unused entries ends once; a second end lies behind the table. */
        ends += arena.address == 0 && arena.next == NULL;
    }
}

size_t hf_arenas_learn(const struct hf_cpython *cpython)
{
    struct search search = {.cpython = cpython};
    struct hf_py_allocator bottom;
    bool debug;
    (void)hf_cpython_bottom(cpython, HF_PY_OBJECT, &bottom, &debug);
    /* Past any wrapper: the block itself. A size that is rare, so that its pool has room. */
    void *block = bottom.malloc(bottom.ctx, 480);
    if (block == NULL)
        return 0;
    bool known = !hf_owned(block) || hf_hosted_of(block) != NULL;
    if (known)
        known = read_pool(&search, (uintptr_t)block, (size_t)1 << 20) ||
                read_pool(&search, (uintptr_t)block, (size_t)1 << 18);
    if (known) {
        uintptr_t table = cpython->version >= 0x30c ? behind_pools(&search) : in_data(&search);
        if (is_table(&search, table))
            take_over(&search, table);
    }
    bottom.free(bottom.ctx, block);
    return known ? search.arena_size : 0;
}
