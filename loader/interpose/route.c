/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the record of which objects have been routed. Passes run under the loader's lock
 * (loader_lock.h), which serialises them, so this file needs no lock of its own. The counters that
 * tell other threads which loads have been handled are stored at the end of a pass.
 *
 * When: the first pass runs in libhomefree's constructor; later ones run after each dlopen()
 * through a routed slot and whenever hf_route() is called. While slots change, this file calls no
 * function that the change could affect: libhomefree's own slots are never routed, and nothing is
 * allocated.
 */
#include "loader/interpose/route.h"

#include "alloc/base/clock.h"
#include "alloc/base/options.h"
#include "alloc/base/seal.h"
#include "alloc/heap/instance.h"
#include "loader/foreign/adopted_note.h"
#include "loader/foreign/finding.h"
#include "loader/foreign/mmap_tracking.h"
#include "loader/interpose/caller_thunks.h"
#include "loader/interpose/late_stores.h"
#include "loader/interpose/limit_slots.h"
#include "loader/interpose/loader_lock.h"
#include "loader/interpose/slot_policy.h"
#include "loader/interpose/slot_writes.h"
#include "loader/interpose/stubs.h"
#include "loader/interpose/symbol_tables.h"

#include <errno.h>
#include <gnu/libc-version.h>
#include <pthread.h>
#include <string.h>

/* Where the last pass ended in each namespace, identified by its first object. The lists only grow
 * at the end until an object is unloaded; after that these pointers may dangle, and the next pass
 * starts over. */
static struct {
    const struct link_map *first, *last;
} seen[HF_NAMESPACES_MAX];
static size_t seen_count;
static uint64_t seen_unloads;
static uint64_t passes, pass_nanoseconds;
static bool passing; /* a pass calls allocators (finding.c), which may re-enter it */
static bool ready;   /* the constructor has run; preinit functions of a program run before it */

/* The thread that ran the pass does not exist in the child, and the loader's lock is new. */
static void in_child(void)
{
    if (passing)
        passing = false;
}

/* The loader's counters at the end of the last pass. */
struct counters {
    unsigned long long loads, other;
};
static _Atomic(unsigned long long) seen_loads, seen_other;

/* The object being processed. */
struct work {
    struct hf_writer writer;
    enum hf_object_role role;
    struct hf_scope *scope;
    size_t *changed;
    struct hf_imports imports;
};

/* The stubs of the first definitions in the namespace being routed, to which nearly every slot
 * goes, as far as known. Not on the stack, which may be small. */
static void *stubs[HF_ROUTED_COUNT];

static void *stub_for(const struct hf_scope *scope, int function, void *original)
{
    if (original != scope->definitions[function])
        return hf_stub_for((enum hf_routed)function, original);
    if (stubs[function] == NULL)
        stubs[function] = hf_stub_for((enum hf_routed)function, original);
    return stubs[function];
}

static void route_slot(const struct hf_slot *slot, void *context)
{
    struct work *work = context;
    if (hf_routed_is_mapping(slot->function)) {
        struct hf_imports *imports = &work->imports;
        imports->advises |= slot->function == HF_ROUTED_madvise;
        imports->maps |= slot->function != HF_ROUTED_madvise;
        imports->moves_break |= slot->function == HF_ROUTED_sbrk ||
                                slot->function == HF_ROUTED___sbrk ||
                                slot->function == HF_ROUTED_brk;
    }
    struct hf_decision decision =
        hf_slot_decide(work->writer.object, work->role, work->scope, slot);
    if (decision.ignore || !decision.change || !hf_write_is_allowed(&work->writer, slot->address))
        return;
    void *stub = stub_for(work->scope, slot->function, decision.original);
    if (stub == NULL || !hf_write_slot(&work->writer, slot->address, stub, decision.original))
        return;
    ++*work->changed;
    if (work->writer.lazy && slot->kind == HF_SLOT_CALL)
        hf_late_expect(work->writer.object->map, slot->address, stub, decision.original);
}

/* Not strncmp(): libc's version reads beyond the end of a name, and valgrind does not intercept it
 * in the libc of another namespace. */
static bool begins_with(const char *name, const char *prefix)
{
    while (*prefix != '\0')
        if (*name++ != *prefix++)
            return false;
    return true;
}

/* Returns whether the file name could be that of libc or a C++ runtime. */
static bool has_runtimes_name(const struct link_map *map)
{
    const char *name = map->l_name;
    for (const char *at = name; *at != '\0'; at++)
        if (*at == '/')
            name = at + 1;
    return begins_with(name, "libc.so") || begins_with(name, "libc++") ||
           begins_with(name, "libstdc++");
}

static void route_object(const struct link_map *map, struct hf_scope *scope, size_t *changed)
{
    struct hf_object object;
    if (!hf_dynlink_open(map, &object))
        return;
    enum hf_object_role role = hf_object_role(&object);
    if (role != HF_ROLE_ORDINARY && role != HF_ROLE_RUNTIME)
        return;
    if (role == HF_ROLE_RUNTIME && !has_runtimes_name(map))
        hf_table_route(&object, scope->ours);
    struct work work = {{.object = &object}, role, scope, changed, {false}};
    hf_slots_visit(&object, &hf_routed_names, role == HF_ROLE_RUNTIME, route_slot, &work);
    hf_write_close(&work.writer);
    if (role == HF_ROLE_ORDINARY && scope->base)
        if (!hf_adopted_look(&object))
            hf_finding_look(&object, &work.imports);
}

/* ---- detecting new objects ---- */

/* libc's own dl_iterate_phdr: some programs interpose a version that answers from a cache. */
typedef int iterate_function(int (*visit)(struct dl_phdr_info *, size_t, void *), void *context);
static HF_SEALED_UNION(iterate_function *, iterate) table HF_SEALED;

static void find_iterate(void)
{
    struct hf_object object;
    struct hf_seal seal;
    const struct link_map *libc = hf_dynlink_find((const void *)gnu_get_libc_version);
    void *found = libc != NULL && hf_dynlink_open(libc, &object)
                      ? hf_object_address(&object, "dl_iterate_phdr")
                      : NULL;
    if (found == NULL)
        return;
    hf_seal_open_to_start(&seal);
    table.iterate = (iterate_function *)found;
    hf_seal_close(&seal);
}

static int read_counters(struct dl_phdr_info *info, size_t size, void *context)
{
    struct counters *counters = context;
    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs) {
        counters->loads = info->dlpi_adds;
        counters->other = info->dlpi_subs;
    }
    return 1;
}

/*
 * Returns whether anything was loaded or unloaded since the last pass. Needs no lock to be right
 * about objects that the calling thread loaded: a pass under way on another thread has not stored
 * its counters yet.
 *
 * glibc computes the second counter as the first less a sum over all namespaces that counts some
 * objects several times (elf/dl-iteratephdr.c, 2.2 to 2.42). It grows with each unload as long as
 * nothing is loaded, and a load may raise or lower it. Both counters are therefore unchanged only
 * if nothing happened, but the second does not say what happened.
 */
static bool anything_new(struct counters *counters)
{
    *counters = (struct counters){0, 0};
    (table.iterate != NULL ? table.iterate : dl_iterate_phdr)(read_counters, counters);
    return counters->loads == 0 || counters->loads != seen_loads || counters->other != seen_other;
}

static uint64_t count_objects(const struct link_map *const *first, size_t count)
{
    uint64_t listed = 0;
    for (size_t i = 0; i < count; i++)
        for (const struct link_map *map = first[i]; map != NULL; map = map->l_next)
            listed++;
    return listed;
}

/* ---- a pass ---- */

/* Returns the first object of a namespace that no pass has seen, or NULL. */
static const struct link_map *first_new(const struct link_map *first)
{
    for (size_t i = 0; i < seen_count; i++)
        if (seen[i].first == first)
            return seen[i].last->l_next;
    return first;
}

/* Routes symbol tables before any slot: from then on a thread inside the resolver finds the
 * stub. */
static void route_definitions(const struct link_map *map, const struct hf_scope *scope)
{
    struct hf_object object;
    for (; map != NULL; map = map->l_next)
        if (has_runtimes_name(map) && hf_dynlink_open(map, &object) &&
            hf_object_role(&object) == HF_ROLE_RUNTIME)
            hf_table_route(&object, scope->ours);
}

static void route_namespace(const struct link_map *first, bool base, size_t *changed)
{
    struct hf_scope scope = hf_scope_begin(first, base);
    const struct link_map *const begin = first_new(first), *map = begin, *last = NULL;
    memset(stubs, 0, sizeof stubs);
    route_definitions(map, &scope);
    for (; map != NULL; map = map->l_next) {
        route_object(map, &scope, changed);
        last = map;
    }
    hf_thunks_add(begin);
    hf_limit_slots_add(begin);
    size_t i = 0;
    while (i < seen_count && seen[i].first != first)
        i++;
    if (last == NULL || i == HF_NAMESPACES_MAX)
        return;
    seen[i].first = first;
    seen[i].last = last;
    seen_count += i == seen_count;
}

/* From here on it pays to open /proc/self/mem, which takes as long as some ten objects' mprotect
 * calls: the process's directory in /proc is made then. */
enum { OBJECTS_MANY = 16 };

/* The first pass is timed exactly; a process may have confined itself before a later one. */
static uint64_t pass_clock(void)
{
    return passes == 0 ? hf_clock_exact(CLOCK_MONOTONIC) : hf_clock(CLOCK_MONOTONIC_COARSE);
}

static void look_for_new(const struct counters *counters, size_t *changed)
{
    uint64_t started = pass_clock();
    const struct link_map *first[HF_NAMESPACES_MAX];
    size_t count = hf_dynlink_namespaces(first);
    /* How many have been unloaded in total: those loaded less those listed. Objects in namespaces
     * that cannot be listed (before glibc 2.35) count as unloaded. */
    const uint64_t objects = count_objects(first, count), unloads = counters->loads - objects;
    if (unloads != seen_unloads || counters->loads == 0) {
        hf_tracking_forget();
        hf_stubs_forget();
        seen_count = 0;
    }
    seen_unloads = unloads;
    hf_write_begin(passes == 0 && objects >= OBJECTS_MANY); /* later passes have few objects */
    for (size_t i = 0; i < count; i++)
        route_namespace(first[i], i == 0, changed);
    hf_write_end();
    hf_tracking_settle();
    pass_nanoseconds += pass_clock() - started;
    passes++;
}

static void pass(void *context)
{
    size_t *changed = context;
    struct counters counters;
    if (passing)
        return;
    passing = true;
    if (hf_late_any())
        *changed += hf_late_restore();
    if (anything_new(&counters)) {
        look_for_new(&counters, changed);
        /* Stored last: a thread that finds its object counted need not wait for the pass. */
        seen_other = counters.other;
        seen_loads = counters.loads;
    }
    if (passing)
        passing = false;
}

int hf_route(void)
{
    HF_INSTANCE_FORWARD(route);
    if (!hf_options.route)
        return -EPERM;
    if (!ready)
        return 0;
    size_t changed = 0;
    struct counters counters;
    if (!anything_new(&counters) && !hf_late_any())
        return 0;
    int saved_errno = errno;
    int result = hf_loader_lock_run(pass, &changed);
    errno = saved_errno;
    return result != 0 ? result : (int)changed;
}

void *hf_route_lookup_for(void *original)
{
    /* A copy that was bound after routing began may hold the stub itself. */
    if (!hf_options.route || !ready || hf_stub_is(HF_ROUTED_dlsym, original))
        return original;
    void *stub = hf_stub_for(HF_ROUTED_dlsym, original);
    return stub != NULL ? stub : original;
}

void hf_route_new_objects(void)
{
    (void)hf_route();
}

void hf_route_start(void)
{
    pthread_atfork(NULL, NULL, in_child);
    find_iterate();
    ready = true;
    hf_route_new_objects();
}

struct hf_route_effort hf_route_effort(void)
{
    return (struct hf_route_effort){passes, pass_nanoseconds};
}
