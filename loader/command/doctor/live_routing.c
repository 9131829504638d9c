/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See live_routing.h. Addresses in the tables are the process's; here they are only numbers.
 */
#include "loader/command/doctor/live_routing.h"

#include "loader/command/grown.h"
#include "loader/record/live_state.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FUNCTIONS_MOST = 256,
    ORIGINALS_MOST = 64,
    ENTRY_MOST = 4096,
    ALLOCATORS_MOST = 256,
    PAGES_MOST = 1 << 20,
    LEAVES_MOST = 1024,
    LEAF_SHIFT_MOST = 40,
    RUNS_MOST = 1 << 16,
};
#define LEAF_BYTES_MOST (UINT64_C(1) << 18)

static bool read_at(const struct hf_live_process *process, uint64_t address, void *out, size_t size)
{
    return address != 0 && hf_live_read(process, address, out, size);
}

static uint64_t number_of(const void *address)
{
    return (uint64_t)(uintptr_t)address;
}

/* ---- stubs ---------------------------------------------------------------------------------- */

static int compare_stubs(const void *left, const void *right)
{
    const struct hf_live_stub *one = left, *other = right;
    return (one->address > other->address) - (one->address < other->address);
}

/* False: out of memory. */
static bool read_stubs(const struct hf_live_process *process, uint64_t address,
                       struct hf_live_routing *out)
{
    struct hf_live_stubs table;
    if (!read_at(process, address, &table, sizeof table) || table.functions > FUNCTIONS_MOST ||
        table.per_function > ORIGINALS_MOST || table.original_size > ENTRY_MOST ||
        table.original_real > ENTRY_MOST || table.original_stub > ENTRY_MOST) {
        out->unknown = true;
        return true;
    }
    out->stubs = calloc(table.functions * table.per_function + 1, sizeof *out->stubs);
    if (out->stubs == NULL)
        return false;
    for (uint64_t f = 0; f < table.functions; f++)
        for (uint64_t i = 0; i < table.per_function; i++) {
            const uint64_t entry =
                number_of(table.originals) + (i * table.functions + f) * table.original_size;
            struct hf_live_stub stub;
            if (!read_at(process, entry + table.original_real, &stub.original,
                         sizeof stub.original) ||
                stub.original == 0 ||
                !read_at(process, entry + table.original_stub, &stub.address,
                         sizeof stub.address) ||
                stub.address == 0)
                continue;
            out->stubs[out->stubs_count++] = stub;
        }
    if (out->stubs_count > 1)
        qsort(out->stubs, out->stubs_count, sizeof *out->stubs, compare_stubs);
    return true;
}

bool hf_live_routing_original(const struct hf_live_routing *routing, uint64_t address,
                              uint64_t *original)
{
    const struct hf_live_stub key = {.address = address};
    const struct hf_live_stub *found = NULL;
    if (routing->stubs_count > 0)
        found = bsearch(&key, routing->stubs, routing->stubs_count, sizeof key, compare_stubs);
    if (found != NULL)
        *original = found->original;
    return found != NULL;
}

/* ---- foreign allocators --------------------------------------------------------------------- */

/* Adds pages to the runs, and to how many bytes each number has mapped. What is out of memory or
 * more than can be is left out of the runs. */
static void add_pages(struct hf_live_routing *out, uint64_t bytes[ALLOCATORS_MOST], uint64_t start,
                      uint64_t size, size_t number)
{
    struct hf_live_run *last = out->runs_count > 0 ? &out->runs[out->runs_count - 1] : NULL;
    bytes[number] += size;
    if (number == 0)
        return;
    if (last != NULL && last->number == number && last->end == start) {
        last->end += size;
        return;
    }
    struct hf_live_run *larger = out->runs_count < RUNS_MOST
                                     ? hf_grown(out->runs, out->runs_count, sizeof *out->runs)
                                     : NULL;
    if (larger == NULL)
        return;
    out->runs = larger;
    out->runs[out->runs_count++] = (struct hf_live_run){start, start + size, number};
}

static void read_pages(const struct hf_live_process *process, const struct hf_live_foreign *table,
                       struct hf_live_routing *out, uint64_t bytes[ALLOCATORS_MOST])
{
    enum { WORDS = 512 };
    uint64_t words[WORDS];
    size_t leaves = 0;
    if (table->pages_count > PAGES_MOST || table->leaf_shift > LEAF_SHIFT_MOST ||
        table->page_shift >= table->leaf_shift ||
        (UINT64_C(1) << (table->leaf_shift - table->page_shift)) > LEAF_BYTES_MOST)
        return;
    const size_t leaf_size = (size_t)1 << (table->leaf_shift - table->page_shift);
    uint8_t *leaf = malloc(leaf_size);
    for (uint64_t at = 0; leaf != NULL && at + WORDS <= table->pages_count; at += WORDS) {
        if (!read_at(process, number_of(table->pages) + at * sizeof words[0], words, sizeof words))
            break;
        for (size_t w = 0; w < WORDS; w++) {
            const uint64_t start = (at + w) << table->leaf_shift;
            if (words[w] < ALLOCATORS_MOST) {
                add_pages(out, bytes, start, UINT64_C(1) << table->leaf_shift, words[w]);
                continue;
            }
            if (++leaves > LEAVES_MOST || !read_at(process, words[w], leaf, leaf_size))
                continue;
            for (size_t page = 0; page < leaf_size; page++)
                add_pages(out, bytes, start + (page << table->page_shift),
                          UINT64_C(1) << table->page_shift, leaf[page]);
        }
    }
    free(leaf);
}

/* The object of an allocator: by its link map or by the address of its name; for the program, which
 * has no name there, by its path. `count`: unknown. */
static size_t find_object(const struct hf_live_process *process,
                          const struct hf_live_objects *objects, uint64_t map, uint64_t name)
{
    char path[PATH_MAX];
    struct stat status = {.st_ino = 0};
    for (size_t i = 0; i < objects->count; i++) {
        const struct hf_live_object *object = &objects->items[i];
        if (object->link != 0 && (map != 0 ? object->link == map : object->name == name))
            return i;
    }
    if (map != 0 || !hf_live_read_string(process, name, path, sizeof path))
        return objects->count;
    const int file = hf_live_open_path(process, path);
    if (file >= 0) {
        (void)fstat(file, &status);
        close(file);
    }
    for (size_t i = 0; i < objects->count; i++)
        if (objects->items[i].program && status.st_ino != 0 &&
            (uint64_t)status.st_ino == objects->items[i].mapping->inode)
            return i;
    return objects->count;
}

static bool read_allocator(const struct hf_live_process *process,
                           const struct hf_live_objects *objects,
                           const struct hf_live_foreign *table, uint64_t entry,
                           struct hf_live_allocator *out)
{
    uint64_t name, map, path;
    uint32_t form;
    *out = (struct hf_live_allocator){.bytes = 0};
    if (!read_at(process, entry + table->entry_name, &name, sizeof name) ||
        !read_at(process, entry + table->entry_map, &map, sizeof map) ||
        !read_at(process, entry + table->entry_path, &path, sizeof path) ||
        !read_at(process, entry + table->entry_form, &form, sizeof form) || name == 0 ||
        !hf_live_read_string(process, name, out->name, sizeof out->name))
        return false;
    out->home = form != 0;
    out->object = find_object(process, objects, map, path);
    return out->object < objects->count && out->name[0] != '\0';
}

static bool read_foreign(const struct hf_live_process *process,
                         const struct hf_live_objects *objects, uint64_t address,
                         struct hf_live_routing *out)
{
    struct hf_live_foreign table;
    uint8_t states[ALLOCATORS_MOST] = {0};
    uint64_t bytes[ALLOCATORS_MOST] = {0};
    if (!read_at(process, address, &table, sizeof table) || table.count > ALLOCATORS_MOST ||
        table.entry_size > ENTRY_MOST || table.entry_name > ENTRY_MOST ||
        table.entry_map > ENTRY_MOST || table.entry_path > ENTRY_MOST ||
        table.entry_form > ENTRY_MOST ||
        !read_at(process, number_of(table.states), states, table.count)) {
        out->unknown = true;
        return true;
    }
    out->allocators = calloc(table.count + 1, sizeof *out->allocators);
    if (out->allocators == NULL)
        return false;
    bool any = false;
    for (uint64_t i = 1; i < table.count; i++)
        any = any || states[i] == table.known;
    if (any)
        read_pages(process, &table, out, bytes);
    for (uint64_t i = 1; i < table.count; i++) {
        struct hf_live_allocator *allocator = &out->allocators[out->allocators_count];
        if (states[i] != table.known ||
            !read_allocator(process, objects, &table,
                            number_of(table.entries) + i * table.entry_size, allocator))
            continue;
        allocator->bytes = bytes[i];
        allocator->number = i;
        out->allocators_count++;
    }
    return true;
}

/* ---- the copy that is the heap -------------------------------------------------------------- */

/* Reads the tables of one copy. `heap`: it is the heap. False: out of memory. */
static bool read_copy(const struct hf_live_process *process, const struct hf_live_objects *objects,
                      size_t index, const struct hf_live_facts *facts, struct hf_live_routing *out,
                      bool *heap)
{
    const struct hf_live_object *object = &objects->items[index];
    struct hf_live_state state;
    uint32_t instance;
    uint64_t route;
    *heap = false;
    if (facts->state == 0 || !read_at(process, object->base + facts->state, &state, sizeof state) ||
        memcmp(state.magic, HF_LIVE_MAGIC, sizeof HF_LIVE_MAGIC) != 0 ||
        state.version != HF_LIVE_VERSION || state.size != sizeof state) {
        out->why = "another version of homefree is loaded; what it routes is unknown";
        return true;
    }
    if (state.instance_state > ENTRY_MOST || state.instance_region > ENTRY_MOST ||
        !read_at(process, object->base + facts->instance + state.instance_state, &instance,
                 sizeof instance) ||
        instance != state.instance_is_heap ||
        !read_at(process, number_of(state.route), &route, sizeof route) ||
        !read_at(process, object->base + facts->instance + state.instance_region, &out->reserved,
                 sizeof out->reserved))
        return true;
    *heap = true;
    out->on = route != 0;
    out->blocks = number_of(state.blocks);
    out->profile = number_of(state.profile);
    out->trim = number_of(state.trim);
    return read_stubs(process, number_of(state.stubs), out) &&
           read_foreign(process, objects, number_of(state.foreign), out);
}

bool hf_live_routing_read(const struct hf_live_process *process,
                          const struct hf_live_objects *objects, const struct hf_live_facts *facts,
                          struct hf_live_routing *out)
{
    *out = (struct hf_live_routing){.heap = SIZE_MAX};
    for (size_t i = 0; i < objects->count && out->heap == SIZE_MAX; i++) {
        bool heap = false;
        if (facts[i].role != HF_LIVE_HOMEFREE)
            continue;
        out->present = true;
        if (process->memory >= 0 && !read_copy(process, objects, i, &facts[i], out, &heap))
            return false;
        if (heap)
            out->heap = i;
    }
    if (out->heap != SIZE_MAX)
        out->why = out->unknown ? "libhomefree's tables are damaged" : NULL;
    else if (out->present && out->why == NULL)
        out->why = "libhomefree has not started";
    out->unknown = out->unknown || (out->present && out->heap == SIZE_MAX);
    return true;
}

void hf_live_routing_free(struct hf_live_routing *routing)
{
    free(routing->runs);
    free(routing->allocators);
    free(routing->stubs);
}
