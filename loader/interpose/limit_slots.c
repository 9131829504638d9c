/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See limit_slots.h. Nothing is allocated here.
 */
#include "loader/interpose/limit_slots.h"

#include "alloc/base/seal.h"
#include "loader/foreign/adopted_note.h"
#include "loader/foreign/object_role.h"
#include "loader/interpose/got_slots.h"
#include "loader/interpose/loader_lock.h"
#include "loader/interpose/routed.h"
#include "loader/interpose/slot_writes.h"
#include "loader/interpose/stubs.h"

#include <errno.h>
#include <homefree/alloc.h>
#include <sys/mman.h>
#include <unistd.h>

static HF_SEALED_UNION(void (*)(const struct link_map *), loaded) table HF_SEALED;

/* ---- names ---- */

/* As modules with the shim call them: hf_malloc; adopted objects: malloc; adopted copies: both, and
 * hf_adopted_new (satellites/adopt/hidden/entries.def). */
static const struct {
    char name[40];
    enum hf_limit_kind kind;
} rows[] = {
    {"malloc", HF_LIMIT_MALLOC},
    {"calloc", HF_LIMIT_RESULT},
    {"realloc", HF_LIMIT_RESIZE},
    {"reallocarray", HF_LIMIT_RESIZE_ARRAY},
    {"aligned_alloc", HF_LIMIT_RESULT},
    {"memalign", HF_LIMIT_RESULT},
    {"posix_memalign", HF_LIMIT_OUT},
    {"valloc", HF_LIMIT_RESULT},
    {"pvalloc", HF_LIMIT_RESULT},
    {"strdup", HF_LIMIT_RESULT},
    {"__strdup", HF_LIMIT_RESULT},
    {"strndup", HF_LIMIT_RESULT},
    {"__strndup", HF_LIMIT_RESULT},
    {"wcsdup", HF_LIMIT_RESULT},
#define HF_NEW(symbol, nothrow, aligned) {#symbol, (nothrow) ? HF_LIMIT_RESULT : HF_LIMIT_THROWS},
#include "shim/functions.def"
    {"adopted_new", HF_LIMIT_THROWS},
    {"adopted_new_aligned", HF_LIMIT_THROWS},
    {"adopted_new_n", HF_LIMIT_THROWS},
    {"adopted_zalloc", HF_LIMIT_RESULT},
    {"adopted_calloc", HF_LIMIT_RESULT},
    {"adopted_mallocn", HF_LIMIT_RESULT},
    {"adopted_valloc", HF_LIMIT_RESULT},
    {"adopted_pvalloc", HF_LIMIT_RESULT},
    {"adopted_malloc_aligned", HF_LIMIT_RESULT},
    {"adopted_zalloc_aligned", HF_LIMIT_RESULT},
    {"adopted_calloc_aligned", HF_LIMIT_RESULT},
    {"adopted_aligned_zalloc", HF_LIMIT_RESULT},
    {"adopted_aligned_calloc", HF_LIMIT_RESULT},
    {"adopted_mallocx", HF_LIMIT_RESULT},
    {"adopted_strdup", HF_LIMIT_RESULT},
    {"adopted_strndup", HF_LIMIT_RESULT},
    {"adopted_wcsdup", HF_LIMIT_RESULT},
    {"adopted_heap_malloc", HF_LIMIT_RESULT},
    {"adopted_heap_zalloc", HF_LIMIT_RESULT},
    {"adopted_heap_calloc", HF_LIMIT_RESULT},
    {"adopted_heap_mallocn", HF_LIMIT_RESULT},
    {"adopted_heap_malloc_aligned", HF_LIMIT_RESULT},
    {"adopted_heap_zalloc_aligned", HF_LIMIT_RESULT},
    {"adopted_heap_strdup", HF_LIMIT_RESULT},
    {"adopted_heap_strndup", HF_LIMIT_RESULT},
    {"adopted_heap_new", HF_LIMIT_THROWS},
    {"adopted_realloc", HF_LIMIT_RESIZE},
    {"adopted_reallocarray", HF_LIMIT_RESIZE_ARRAY},
    {"adopted_reallocf", HF_LIMIT_RESIZE_OR_FREE},
    {"adopted_realloc_aligned", HF_LIMIT_RESIZE},
    {"adopted_rezalloc", HF_LIMIT_RESIZE},
    {"adopted_recalloc", HF_LIMIT_RESIZE_ARRAY},
    {"adopted_rezalloc_aligned", HF_LIMIT_RESIZE},
    {"adopted_recalloc_aligned", HF_LIMIT_RESIZE_ARRAY},
    {"adopted_rallocx", HF_LIMIT_RESIZE},
    {"adopted_heap_realloc", HF_LIMIT_HEAP_RESIZE},
    {"adopted_heap_reallocn", HF_LIMIT_HEAP_RESIZE_ARRAY},
    {"adopted_heap_realloc_aligned", HF_LIMIT_HEAP_RESIZE},
};
enum { ROWS = sizeof rows / sizeof *rows };
_Static_assert(ROWS <= HF_FUNCTION_NAMES_MAX, "got_slots.h has room for every name");

static int find(const char *name)
{
    if (name[0] == 'h' && name[1] == 'f' && name[2] == '_')
        name += 3;
    for (int i = 0; i < ROWS; i++)
        if (rows[i].name[0] == name[0] && strcmp(rows[i].name, name) == 0)
            return i;
    return -1;
}

static const char *name_of(int row)
{
    return rows[row].name;
}

static const struct hf_function_names names = {ROWS, find, name_of, NULL};

/* ---- one object ---- */

struct work {
    struct hf_limit_slots *slots;
    struct hf_writer writer;
    const struct hf_adopted_note *note;
    bool opened; /* an adopted copy's slots (adopted_note.h) */
};

static bool is_homefrees(const void *function)
{
    struct hf_object object;
    const struct link_map *map = hf_dynlink_find(function);
    if (map == NULL || !hf_dynlink_open(map, &object))
        return false;
    const enum hf_object_role role = hf_object_role(&object);
    return role == HF_ROLE_HOMEFREE || role == HF_ROLE_SATELLITE;
}

/* The function that an unresolved slot of a module with the shim is for. */
static void *resolve(const struct work *work, const struct hf_slot *slot)
{
    struct hf_object own;
    const struct hf_object *object = work->writer.object;
    const char *name = object->strings + object->symbols[slot->symbol].st_name;
    const struct link_map *map = hf_dynlink_find((const void *)hf_malloc);
    return strncmp(name, "hf_", 3) == 0 && map != NULL && hf_dynlink_open(map, &own)
               ? hf_object_address(&own, name)
               : NULL;
}

/* The pages of an adopted copy's slots are read-only, but no RELRO. */
static bool protect_copy(struct work *work, bool writable)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (work->note == NULL || work->opened == writable)
        return true;
    if (mprotect((void *)(work->writer.object->base + work->note->slots),
                 (work->note->size + page - 1) & -page,
                 writable ? PROT_READ | PROT_WRITE : PROT_READ) != 0) {
        if (!writable)
            hf_write_fail(work->writer.object, "slots");
        return false;
    }
    work->opened = writable;
    return true;
}

static void visit(const struct hf_slot *slot, void *context)
{
    struct work *work = context;
    void *value = __atomic_load_n(slot->address, __ATOMIC_ACQUIRE), *function = value;
    const int routed = hf_routed_by_name(rows[slot->function].name);
    if (value == NULL || (routed >= 0 && hf_stub_is((enum hf_routed)routed, value)))
        return; /* routed: it allocates elsewhere */
    if (!is_homefrees(value)) {
        const bool unresolved =
            slot->kind == HF_SLOT_CALL && hf_dynlink_find(value) == work->writer.object->map;
        function = unresolved ? resolve(work, slot) : NULL;
        if (function == NULL)
            return;
    }
    void *wanted = work->slots->choose(work->slots, rows[slot->function].kind, function);
    if (wanted == NULL || wanted == value)
        return;
    if (!hf_write_is_allowed(&work->writer, slot->address) || !protect_copy(work, true) ||
        !hf_write_slot(&work->writer, slot->address, wanted, value))
        work->slots->error = work->writer.error != 0 ? work->writer.error : -EACCES;
}

void hf_limit_slots_from(struct hf_limit_slots *slots, const struct link_map *map)
{
    for (; map != NULL; map = map->l_next) {
        struct hf_object object;
        if (!hf_dynlink_open(map, &object) || hf_object_role(&object) != HF_ROLE_ORDINARY)
            continue;
        struct work work = {.slots = slots, .note = hf_adopted_loaded(map)};
        const char *path = work.note != NULL ? work.note->original : hf_dynlink_name(map);
        if (!slots->wants(slots, map, path))
            continue;
        work.writer.object = &object;
        if (work.note != NULL)
            hf_slots_visit_all(&object, &names, visit, &work);
        else
            hf_slots_visit(&object, &names, false, visit, &work);
        hf_write_close(&work.writer);
        (void)protect_copy(&work, false);
    }
}

/* ---- all ---- */

struct run {
    struct hf_limit_slots *slots;
    void (*first)(struct hf_limit_slots *slots);
    bool (*last)(struct hf_limit_slots *slots);
};

static void visit_all(void *context)
{
    const struct run *run = context;
    const struct link_map *first[HF_NAMESPACES_MAX];
    const size_t count = hf_dynlink_namespaces(first);
    run->first(run->slots);
    do {
        hf_write_begin(false);
        for (size_t i = 0; i < count; i++)
            hf_limit_slots_from(run->slots, first[i]);
        hf_write_end();
    } while (run->last(run->slots));
}

int hf_limit_slots_all(struct hf_limit_slots *slots, void (*first)(struct hf_limit_slots *slots),
                       bool (*last)(struct hf_limit_slots *slots))
{
    struct run run = {slots, first, last};
    return hf_loader_lock_run(visit_all, &run);
}

bool hf_limit_slots_offer(void (*loaded)(const struct link_map *map))
{
    struct hf_seal seal;
    if (table.loaded == loaded)
        return true;
    if (!hf_seal_open(&seal))
        return false;
    table.loaded = loaded;
    hf_seal_close(&seal);
    return true;
}

void hf_limit_slots_add(const struct link_map *map)
{
    if (table.loaded != NULL)
        table.loaded(map);
}

bool hf_limit_slots_has(const void *function)
{
    return table.loaded != NULL &&
           hf_dynlink_find(function) == hf_dynlink_find((const void *)table.loaded);
}
