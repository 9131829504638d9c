/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the number under which the table of foreign pages (foreign_pages.h) records the pages of
 * these arenas. It is assigned once, under the host's lock, and read without a lock.
 *
 * CPython has no function that returns pymalloc's list of arenas, so this file finds the list from
 * a block that it allocates itself. The block's pool is the start of the block rounded down to the
 * pool size, and the pool is linked into a ring whose head is an entry of pymalloc's table of pools
 * (usedpools). From there:
 *
 *   3.12 and later   The list's address is stored directly behind that table.
 *   before 3.12      The list's address is a static variable of CPython. The writable data of the
 *                    object that contains CPython is searched for a word that points to such
 *                    a list.
 *
 * A candidate is accepted only if the list's entry for the block's pool describes an arena that
 * contains the block. Guessed addresses are read with hf_maps_read(), so a wrong guess cannot
 * fault. If no candidate is accepted, no arena is recorded, and blocks in such arenas remain
 * foreign, as they were before.
 */
#include "loader/host/arenas.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/maps.h"
#include "alloc/heap/internal.h"
#include "alloc/owner/foreign_pages.h"
#include "alloc/owner/hosted.h"
#include "loader/host/arena_owners.h"

#include <stdatomic.h>

/* pymalloc's arena_object, one entry of the list. */
struct arena {
    uintptr_t address; /* 0: the entry is unused */
    uintptr_t next_pool;
    uint32_t free_pools, all_pools;
    void *pools;
    struct arena *next, *previous;
};

#define USED_POOLS 64 /* pointers in pymalloc's table of pools */
#define ARENAS_MAX (1 << 16)

static atomic_uint number;

/* ---- recording pages ---- */

bool hf_arenas_add(const void *arena, size_t size)
{
    if (number == 0)
        return false;
    (void)hf_foreign_pages_set(arena, size, number);
    return true;
}

void hf_arenas_remove(const void *arena, size_t size)
{
    hf_arena_owners_remove(arena);
    if (number != 0)
        (void)hf_foreign_pages_set(arena, size, HF_FOREIGN_PAGES_UNKNOWN);
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

/* ---- finding pymalloc's list of arenas ---- */

struct search {
    const struct hf_cpython *cpython;
    uintptr_t block, pool;
    struct hf_py_pool head;
    size_t arena_size, pool_size;
    bool is_main;
};

/* Whether the block is one of pymalloc's if its arenas have this size. Fills in the search if
 * so. */
static bool read_pool(struct search *search, uintptr_t block, size_t size)
{
    search->block = block;
    search->arena_size = size;
    search->pool_size = hf_py_pool_size(size);
    search->pool = block & -search->pool_size;
    if (!hf_maps_read((const void *)search->pool, &search->head, sizeof search->head))
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

/* Whether `table` is pymalloc's list of arenas: the entry that the block's pool names must describe
 * an arena that contains the block. */
static bool is_table(const struct search *search, uintptr_t table)
{
    struct arena arena;
    return table != 0 && table % 8 == 0 &&
           hf_maps_read((const void *)(table + search->head.arena * sizeof arena), &arena,
                        sizeof arena) &&
           arena.address != 0 && is_plausible(search, &arena, table) &&
           search->block - arena.address < search->arena_size;
}

/* Since 3.12: reads the list's address from behind the table of pools. */
static uintptr_t behind_pools(const struct search *search)
{
    struct hf_py_pool pool = search->head;
    const struct hf_py_pool *at = pool.next;
    /* Walk the ring up to its head, the only element that does not start at a multiple of the pool
     * size. */
    for (size_t steps = 0; (uintptr_t)at % search->pool_size == 0; at = pool.next)
        if (at == NULL || ++steps > 65536 || !hf_maps_read(at, &pool, sizeof pool))
            return 0;
    uintptr_t pools = (uintptr_t)at + offsetof(struct hf_py_pool, next) -
                      (uintptr_t)search->head.size_class * 2 * sizeof(void *);
    uintptr_t table = 0;
    if (!hf_maps_read((const void *)(pools + USED_POOLS * sizeof(void *)), &table, sizeof table))
        return 0;
    return table;
}

/* Whether words[i] is surrounded by the variables that CPython keeps next to the list's address in
 * the same source file: the length of the list, a power of two from 16 up, and a pointer to one of
 * the list's entries. */
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

/* Before 3.12: searches the writable data for the variable that holds the list's address. The
 * search goes backwards, because the variable is zero-initialised and therefore lies in .bss, near
 * the end. */
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
            if (table < 65536 || table % 16 != 0 || table >> HF_USER_BITS != 0 ||
                hf_object_writable(&object, table) || !has_company(words, i, all))
                continue;
            if (is_table(search, table))
                return table;
        }
    }
    return 0;
}

/* Reads several entries at a time, which takes one system call, and where that fails, one. */
static void take_over(const struct search *search, uintptr_t table)
{
    enum { SOME = 32 }; /* CPython's list has 16 entries at first */
    struct arena some[SOME];
    bool have_some = false;
    size_t ends = 0;
    for (size_t i = 0; i < ARENAS_MAX && ends < 2; i++) {
        struct arena *arena = &some[i % SOME];
        const void *entry = (const void *)(table + i * sizeof *arena);
        if (i % SOME == 0)
            have_some = hf_maps_read(entry, some, sizeof some);
        if ((!have_some && !hf_maps_read(entry, arena, sizeof *arena)) ||
            !is_plausible(search, arena, table))
            return;
        if (arena->address != 0 && !hf_owned((const void *)arena->address)) {
            (void)hf_arenas_add((const void *)arena->address, search->arena_size);
            if (search->is_main && hf_arena_owners_find((const void *)arena->address) != 0)
                hf_arena_owners_add((const void *)arena->address, 0);
        }
        /* The chain of unused entries ends once; a second end lies beyond the list. */
        ends += arena->address == 0 && arena->next == NULL;
    }
}

size_t hf_arenas_learn(const struct hf_cpython *cpython, bool is_main)
{
    struct search search = {.cpython = cpython, .is_main = is_main};
    struct hf_py_allocator bottom;
    bool debug;
    (void)hf_cpython_bottom(cpython, HF_PY_OBJECT, &bottom, &debug);
    /* Ask the bottom allocator, so that no wrapper shifts the block. 480 bytes is a rare size, so
     * its pool has room. */
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
