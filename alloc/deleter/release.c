/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the records, the three counts and the table of pinned objects. No lock: a record belongs to
 * its references, and the thread that moves its state on from WAITING owns the pointer. The first
 * record starts the heap. After that, records may be created and dropped at any stage: in
 * constructors, exit handlers and a forked child (where a record that another thread was running
 * stays unfinished).
 *
 * destroy's code must still be loaded when it is called, maybe years later: the object that holds
 * it is pinned. An object that cannot be pinned (the loader finds another one under its name) is
 * looked up again before the call. For code outside any object (generated at run time) its creator
 * is responsible.
 */
#include "alloc/deleter/release.h"

#include "alloc/base/dynlink.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

/* Marks a block as a record. */
#define MAGIC UINT64_C(0x6866726563307264)

enum state {
    WAITING,   /* the record owns the pointer */
    RUN,       /* destroy has been called */
    FORBIDDEN, /* the caller owns the pointer again */
};

/* A record's operations, in the copy that created it. */
struct functions {
    void (*take)(struct hf_release *record);
    void (*drop)(struct hf_release *record);
    int (*run)(struct hf_release *record);
    int (*forbid)(struct hf_release *record);
    int (*device)(const struct hf_release *record);
    void *(*stream)(const struct hf_release *record);
    int (*set_stream)(struct hf_release *record, void *stream);
};

struct hf_release {
    /* Fields up to `name` keep their place in every version. */
    uint64_t magic;
    const struct functions *functions;
    void *pointer;
    const char *name;
    void (*destroy)(void *pointer);
    int (*attempt)(void *pointer);
    const struct link_map *unpinned; /* must still hold destroy when it is called; NULL if pinned */
    _Atomic(uint32_t) references;
    _Atomic(uint32_t) state;
    char text[]; /* the name, behind struct of_space if the memory is a space's */
};

/* What a record of a space's memory has besides. Others are not larger for it. */
struct of_space {
    int (*give_back)(void *pointer, void *stream);
    _Atomic(void *) stream;
    int device;
};
_Static_assert(offsetof(struct hf_release, text) % _Alignof(struct of_space) == 0,
               "it follows the record");

static _Atomic(uint64_t) live, run, leaked;
static _Atomic(bool) over;

/* A pinned object is never unloaded, so no other can get its address. Entries are only ever set. */
static _Atomic(const struct link_map *) pinned[64];

/* 101: libhomefree's last destructor; those of objects that depend on it have run. */
__attribute__((destructor(101))) static void become_over(void)
{
    atomic_store(&over, true);
}

struct hf_release_counts hf_release_count(void)
{
    return (struct hf_release_counts){
        .live = atomic_load_explicit(&live, memory_order_relaxed),
        .run = atomic_load_explicit(&run, memory_order_relaxed),
        .leaked = atomic_load_explicit(&leaked, memory_order_relaxed),
    };
}

/* ---- pinning ---- */

static _Atomic(const struct link_map *) *pinned_entry(const struct link_map *map)
{
    uintptr_t hash = (uintptr_t)map;
    hash = (hash >> 4) ^ (hash >> 12);
    return &pinned[hash % (sizeof pinned / sizeof pinned[0])];
}

static int pin(const struct link_map *map)
{
    _Atomic(const struct link_map *) *entry = pinned_entry(map);
    if (map->l_prev == NULL && map->l_name[0] == '\0')
        return 0; /* the program */
    if (atomic_load_explicit(entry, memory_order_relaxed) == map)
        return 0;
    Lmid_t where;
    if (dlinfo((void *)(uintptr_t)map, RTLD_DI_LMID, &where) != 0)
        return -EBUSY;
    void *found = dlmopen(where, map->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    if (found != map) {
        /* The loader looks objects up by name, and another one has this name. */
        if (found != NULL)
            dlclose(found);
        return -EBUSY;
    }
    atomic_store_explicit(entry, map, memory_order_relaxed);
    return 0;
}

int hf_release_pin(const void *code)
{
    const struct link_map *map = hf_dynlink_find(code);
    return map != NULL ? pin(map) : -ENOENT;
}

/* ---- operations on a record ---- */

static void count_down(_Atomic(uint64_t) *what)
{
    atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    if (what != NULL)
        atomic_fetch_add_explicit(what, 1, memory_order_relaxed);
}

static void release_take(struct hf_release *record)
{
    atomic_fetch_add_explicit(&record->references, 1, memory_order_relaxed);
}

static bool take_state(struct hf_release *record, enum state state)
{
    uint32_t expected = WAITING;
    return atomic_compare_exchange_strong(&record->state, &expected, state);
}

static struct of_space *of_space(const struct hf_release *record)
{
    return (struct of_space *)(uintptr_t)record->text;
}

static int destroy_pointer(struct hf_release *record)
{
    if (record->attempt != NULL)
        return record->attempt(record->pointer);
    if (record->destroy == NULL) {
        struct of_space *space = of_space(record);
        return space->give_back(record->pointer, atomic_load(&space->stream));
    }
    record->destroy(record->pointer);
    return 0;
}

static int release_run(struct hf_release *record)
{
    if (!take_state(record, RUN))
        return -EALREADY;
    if (atomic_load(&over) ||
        (record->unpinned != NULL &&
         hf_dynlink_find((const void *)(record->attempt != NULL ? (uintptr_t)record->attempt
                                                                : (uintptr_t)record->destroy)) !=
             record->unpinned)) {
        count_down(&leaked);
        return -ECANCELED;
    }
    int saved_errno = errno;
    int result = destroy_pointer(record);
    errno = saved_errno;
    count_down(result < 0 ? &leaked : &run);
    return result < 0 ? -ECANCELED : 0;
}

static void release_drop(struct hf_release *record)
{
    if (atomic_fetch_sub_explicit(&record->references, 1, memory_order_acq_rel) != 1)
        return;
    release_run(record);
    record->magic = 0;
    hf_free(record);
    /* Prevents a tail call: a watch identifies the freeing code by hf_free's return address. */
    __asm__ volatile("");
}

static int release_forbid(struct hf_release *record)
{
    if (!take_state(record, FORBIDDEN))
        return -EALREADY;
    count_down(NULL);
    return 0;
}

static int no_device(const struct hf_release *record)
{
    (void)record;
    return -1;
}

static void *no_stream(const struct hf_release *record)
{
    (void)record;
    return HF_STREAM_DONE;
}

static int set_no_stream(struct hf_release *record, void *stream)
{
    (void)record, (void)stream;
    return -EINVAL;
}

static int space_device(const struct hf_release *record)
{
    return of_space(record)->device;
}

static void *space_stream(const struct hf_release *record)
{
    return atomic_load(&of_space(record)->stream);
}

static int set_space_stream(struct hf_release *record, void *stream)
{
    if (atomic_load(&record->state) != WAITING)
        return -EALREADY;
    atomic_store(&of_space(record)->stream, stream);
    return 0;
}

static const struct functions own_functions = {
    .take = release_take,
    .drop = release_drop,
    .run = release_run,
    .forbid = release_forbid,
    .device = no_device,
    .stream = no_stream,
    .set_stream = set_no_stream,
};

static const struct functions space_functions = {
    .take = release_take,
    .drop = release_drop,
    .run = release_run,
    .forbid = release_forbid,
    .device = space_device,
    .stream = space_stream,
    .set_stream = set_space_stream,
};

/* ---- creating a record ---- */

/* A record with `extra` zero bytes in front of its name; NULL if there is no memory. */
static struct hf_release *new_record(void *pointer, const struct functions *functions, size_t extra,
                                     const char *name)
{
    size_t name_size = name != NULL ? strlen(name) + 1 : 0;
    int saved_errno = errno;
    struct hf_release *record = hf_malloc(sizeof *record + extra + name_size);
    errno = saved_errno;
    if (record == NULL)
        return NULL;
    *record = (struct hf_release){.magic = MAGIC, .functions = functions, .pointer = pointer};
    atomic_init(&record->references, 1);
    atomic_init(&record->state, WAITING);
    memset(record->text, 0, extra);
    if (name != NULL)
        record->name = memcpy(record->text + extra, name, name_size);
    atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    return record;
}

int hf_release_make(struct hf_release **out, void *pointer, void (*destroy)(void *pointer),
                    int (*attempt)(void *pointer), const char *name)
{
    const struct link_map *map =
        hf_dynlink_find((const void *)(attempt != NULL ? (uintptr_t)attempt : (uintptr_t)destroy));
    const struct link_map *unpinned = map != NULL && pin(map) != 0 ? map : NULL;
    struct hf_release *record = new_record(pointer, &own_functions, 0, name);
    if (record == NULL)
        return -ENOMEM;
    record->destroy = destroy;
    record->attempt = attempt;
    record->unpinned = unpinned;
    *out = record;
    return 0;
}

int hf_release_make_space(struct hf_release **out, void *pointer, int device, void *stream,
                          int (*give_back)(void *pointer, void *stream), const char *name)
{
    struct hf_release *record =
        new_record(pointer, &space_functions, sizeof(struct of_space), name);
    if (record == NULL)
        return -ENOMEM;
    struct of_space *space = of_space(record);
    space->give_back = give_back;
    space->device = device;
    atomic_init(&space->stream, stream);
    *out = record;
    return 0;
}

/* ---- the public functions ---- */

void hf_release_take(struct hf_release *record)
{
    record->functions->take(record);
}

void hf_release_drop(struct hf_release *record)
{
    if (record != NULL)
        record->functions->drop(record);
}

int hf_release_run(struct hf_release *record)
{
    return record->functions->run(record);
}

int hf_release_forbid(struct hf_release *record)
{
    return record->functions->forbid(record);
}

void *hf_release_pointer(const struct hf_release *record)
{
    return record->pointer;
}

const char *hf_release_name(const struct hf_release *record)
{
    return record->name;
}

int hf_release_device(const struct hf_release *record)
{
    return record->functions->device(record);
}

void *hf_release_stream(const struct hf_release *record)
{
    return record->functions->stream(record);
}

int hf_release_set_stream(struct hf_release *record, void *stream)
{
    return record->functions->set_stream(record, stream);
}

bool hf_release_is_record(const void *block, size_t size)
{
    const struct hf_release *record = block;
    return size >= sizeof *record && record->magic == MAGIC;
}
