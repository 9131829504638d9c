/*
 * Owns which objects have been routed. A pass runs only under the loader's lock (lock.h), which
 * serialises passes: no lock of our own guards this file's state.
 *
 * When: the first pass runs in libhomefree's constructor, later ones after each dlopen() that a
 * routed slot sees, or when hf_route() is called. While slots change, nothing here calls a function
 * that the change could reach: libhomefree's own slots are never routed, and nothing is allocated.
 *
 * Protection: a RELRO range becomes writable for the time that one object's slots are written, and
 * read-only again before the next object. While the process has one thread, /proc/self/mem is used
 * instead: it writes to read-only pages of ours in a fifth of the time and opens nothing. With more
 * threads it is not, because the kernel does not promise that a thread never sees half a pointer.
 * All calls are checked; an object that cannot be made writable is refused, one that cannot be
 * protected again ends the process.
 */
#include "route.h"

#include "fatal.h"
#include "instance.h"
#include "lock.h"
#include "neighbours.h"
#include "options.h"
#include "sized.h"
#include "target.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Where the last pass ended in each namespace. Lists only grow at their end, until an object is
 * unloaded: then everything is looked at again. */
static const struct link_map *last_seen[HF_NAMESPACES_MAX];
static _Atomic(unsigned long long) seen_loads, seen_unloads;
static uint64_t passes, pass_nanoseconds;

/* Slots that were not resolved yet when they were changed: a thread that was inside the resolver at
 * that moment may have overwritten the change. They are looked at once more at the pass's end. */
#define UNRESOLVED_MAX 1024
static struct {
    void **address;
    void *stub;
} unresolved[UNRESOLVED_MAX];
static size_t unresolved_count;

/* From glibc 2.32 on; weak, so that older ones load us. */
extern char hf_libc_single_threaded __asm__("__libc_single_threaded")
    __attribute__((weak, visibility("default")));

/* /proc/self/mem, open for the time of a pass in a process of one thread; else -1. */
static int memory = -1;

static void open_memory(void)
{
    if (&hf_libc_single_threaded != NULL && hf_libc_single_threaded)
        memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
}

static void close_memory(void)
{
    if (memory >= 0)
        close(memory);
    memory = -1;
}

/* One object under work. */
struct work {
    struct hf_object *object;
    enum hf_object_role role;
    struct hf_scope *scope;
    size_t *changed;
    bool opened; /* its RELRO range is writable */
    int error;   /* why it could not be made writable; negative errno */
};

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static bool protect(const struct hf_object *object, int protection)
{
    return mprotect((void *)object->relro_start, object->relro_size, protection) == 0;
}

/* Whether the file asks for the slot to be writable at all; looks the segments up once an object.
 */
static bool is_writable(struct work *work, const struct hf_slot *slot)
{
    if (work->object->writable_count == 0)
        hf_object_segments(work->object);
    return hf_object_writable(work->object, (uintptr_t)slot->address);
}

static bool is_in_relro(const struct work *work, const struct hf_slot *slot)
{
    return (uintptr_t)slot->address - work->object->relro_start < work->object->relro_size;
}

/* Whether the slot may be written now; makes its RELRO range writable if that is where it lies. */
static bool make_writable(struct work *work, const struct hf_slot *slot)
{
    if (!is_in_relro(work, slot) || work->opened)
        return true;
    if (work->error != 0)
        return false;
    if (!protect(work->object, PROT_READ | PROT_WRITE)) {
        work->error = -errno;
        return false;
    }
    work->opened = true;
    return true;
}

/* Writes a slot that lies in a RELRO range without making it writable. No other thread can be
 * inside the resolver, so such a slot needs no second look. */
static bool write_protected(const struct work *work, const struct hf_slot *slot, void *stub)
{
    return memory >= 0 && is_in_relro(work, slot) &&
           pwrite(memory, &stub, sizeof stub, (off_t)(uintptr_t)slot->address) ==
               (ssize_t)sizeof stub;
}

static void route_slot(const struct hf_slot *slot, void *context)
{
    struct work *work = context;
    struct hf_decision decision = hf_slot_decide(work->object, work->role, work->scope, slot);
    if (decision.ignore || !decision.change || !is_writable(work, slot))
        return;
    void *stub = hf_stub_for(slot->function, decision.original);
    if (stub == NULL)
        return;
    if (write_protected(work, slot, stub)) {
        ++*work->changed;
        return;
    }
    if (!make_writable(work, slot))
        return;
    void *before = __atomic_exchange_n(slot->address, stub, __ATOMIC_ACQ_REL);
    if (before != decision.original && unresolved_count < UNRESOLVED_MAX) {
        unresolved[unresolved_count].address = slot->address;
        unresolved[unresolved_count++].stub = stub;
    }
    ++*work->changed;
}

static void close_object(struct work *work)
{
    if (!work->opened || protect(work->object, PROT_READ))
        return;
    struct hf_text text;
    hf_text_begin(&text);
    hf_text_add(&text, "fatal: cannot make the relocated data of ");
    hf_text_add(&text, hf_dynlink_name(work->object->map));
    hf_text_add(&text, " read-only again after routing it (errno ");
    hf_text_add_decimal(&text, errno);
    hf_text_add(&text, "); set HOMEFREE_CONF=route:off to go without routing");
    hf_fatal(&text);
}

static void route_object(const struct link_map *map, struct hf_scope *scope, size_t *changed)
{
    struct hf_object object;
    if (!hf_dynlink_open(map, &object))
        return;
    enum hf_object_role role = hf_object_role(&object);
    if (role != HF_ROLE_ORDINARY && role != HF_ROLE_RUNTIME)
        return;
    if (role == HF_ROLE_ORDINARY && scope->base)
        hf_neighbour_look(&object);
    struct work work = {&object, role, scope, changed, false, 0};
    hf_slots_visit(&object, role == HF_ROLE_RUNTIME, route_slot, &work);
    close_object(&work);
}

/* ---- a pass ---- */

struct counters {
    unsigned long long loads, unloads;
};

static int read_counters(struct dl_phdr_info *info, size_t size, void *context)
{
    struct counters *counters = context;
    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs) {
        counters->loads = info->dlpi_adds;
        counters->unloads = info->dlpi_subs;
    }
    return 1;
}

/* Whether anything was loaded or unloaded since the last pass. Needs no lock to be right about what
 * the calling thread has loaded itself. */
static bool anything_new(struct counters *counters)
{
    *counters = (struct counters){0, 0};
    dl_iterate_phdr(read_counters, counters);
    return counters->loads == 0 || counters->loads != seen_loads ||
           counters->unloads != seen_unloads;
}

static void pass(void *context)
{
    size_t *changed = context;
    struct counters counters;
    if (!anything_new(&counters))
        return;
    bool unloaded = counters.unloads != seen_unloads;
    seen_loads = counters.loads;
    seen_unloads = counters.unloads;
    uint64_t started = now();
    const struct link_map *first[HF_NAMESPACES_MAX];
    size_t count = hf_dynlink_namespaces(first);
    unresolved_count = 0;
    if (passes == 0) /* later ones have few objects: opening would cost more than it saves */
        open_memory();
    for (size_t i = 0; i < HF_NAMESPACES_MAX && unloaded; i++)
        last_seen[i] = NULL;
    for (size_t i = 0; i < count; i++) {
        struct hf_scope scope = hf_scope_begin(first[i], i == 0);
        const struct link_map *map = last_seen[i] != NULL ? last_seen[i]->l_next : first[i];
        for (; map != NULL; map = map->l_next) {
            route_object(map, &scope, changed);
            last_seen[i] = map;
        }
    }
    close_memory();
    for (size_t i = 0; i < unresolved_count; i++)
        if (__atomic_load_n(unresolved[i].address, __ATOMIC_ACQUIRE) != unresolved[i].stub)
            __atomic_store_n(unresolved[i].address, unresolved[i].stub, __ATOMIC_RELEASE);
    pass_nanoseconds += now() - started;
    passes++;
}

int hf_route(void)
{
    hf_heap_start();
    const struct hf_instance_functions *other = hf_instance_forward();
    if (other != NULL)
        return other->route != NULL ? other->route() : -ENOTSUP;
    if (!hf_options.route)
        return -EPERM;
    size_t changed = 0;
    struct counters counters;
    if (!anything_new(&counters))
        return 0;
    int saved_errno = errno;
    int result = hf_loader_lock_run(pass, &changed);
    errno = saved_errno;
    return result != 0 ? result : (int)changed;
}

void hf_route_new_objects(void)
{
    (void)hf_route();
}

/* 102: after the heap has started (101), before ordinary constructors of the same load. */
__attribute__((constructor(102))) static void construct(void)
{
    hf_route_new_objects();
}

/* 101, and earlier in the link than instance.c's: what other copies call must be there first. */
__attribute__((constructor(101))) static void offer(void)
{
    hf_instance_offer_routing(hf_route, hf_route_report);
}

/* ---- the report ---- */

struct telling {
    struct hf_route_report sums;
    hf_route_visitor *visit;
    void *context;
    const struct hf_object *object;
    enum hf_object_role role;
    struct hf_scope *scope;
};

static void tell(struct telling *telling, const struct hf_route_entry *entry)
{
    uint64_t *sums[] = {
        [HF_ROUTE_CHANGED] = &telling->sums.changed,
        [HF_ROUTE_REFUSED] = &telling->sums.refused,
        [HF_ROUTE_OUT_OF_REACH] = &telling->sums.out_of_reach,
    };
    ++*sums[entry->state];
    if (telling->visit != NULL)
        telling->visit(entry, telling->context);
}

static void tell_slot(const struct hf_slot *slot, void *context)
{
    struct telling *telling = context;
    struct hf_decision decision =
        hf_slot_decide(telling->object, telling->role, telling->scope, slot);
    if (decision.ignore)
        return;
    struct hf_route_entry entry = {
        .size = sizeof entry,
        .state = decision.state,
        .object = hf_dynlink_name(telling->object->map),
        .function = hf_routed_name(slot->function),
        .slot = slot->address,
        .reason = decision.reason,
    };
    /* Routing has been here, and the slot is still not a stub: say which step failed. */
    if (decision.change) {
        entry.state = HF_ROUTE_REFUSED;
        if (!hf_options.route) {
            entry.reason = "routing is off (HOMEFREE_CONF=route:off)";
        } else if (hf_stub_for(slot->function, decision.original) == NULL) {
            entry.reason = "more allocators define this function than homefree has stubs for";
            entry.error = -ENOSPC;
        } else {
            entry.reason = "the slot cannot be made writable, or was changed back since";
            entry.error = -EACCES;
        }
    }
    tell(telling, &entry);
}

static void tell_object(struct telling *telling, const struct link_map *map)
{
    struct hf_object object;
    if (!hf_dynlink_open(map, &object))
        return;
    telling->object = &object;
    telling->role = hf_object_role(&object);
    struct hf_route_entry entry = {
        .size = sizeof entry,
        .state = HF_ROUTE_OUT_OF_REACH,
        .object = hf_dynlink_name(map),
    };
    switch (telling->role) {
    case HF_ROLE_NOTHING:
        return;
    case HF_ROLE_HOMEFREE:
        break;
    case HF_ROLE_LINKER:
        entry.reason =
            "the dynamic linker frees only what it allocated, through pointers of its own";
        tell(telling, &entry);
        break;
    case HF_ROLE_ORDINARY:
        /* A definition of its own is what others' slots may point to, but its own calls can be
         * direct, without any slot. */
        if (hf_object_address(&object, "free") != NULL &&
            hf_object_address(&object, "malloc") != NULL) {
            entry.reason = "the object is an allocator: calls inside it need no slot";
            tell(telling, &entry);
        }
        hf_slots_visit(&object, false, tell_slot, telling);
        break;
    case HF_ROLE_RUNTIME:
        hf_slots_visit(&object, true, tell_slot, telling);
        break;
    }
    telling->sums.objects++;
}

static void report(void *context)
{
    struct telling *telling = context;
    const struct link_map *first[HF_NAMESPACES_MAX];
    size_t count = hf_dynlink_namespaces(first);
    for (size_t i = 0; i < count; i++) {
        struct hf_scope scope = hf_scope_begin(first[i], i == 0);
        telling->scope = &scope;
        for (const struct link_map *map = first[i]; map != NULL; map = map->l_next)
            tell_object(telling, map);
    }
    telling->sums.passes = passes;
    telling->sums.nanoseconds = pass_nanoseconds;
}

int hf_route_report(struct hf_route_report *out, hf_route_visitor *visit, void *context)
{
    if (out != NULL && out->size <= sizeof(size_t))
        return -EINVAL;
    hf_heap_start();
    const struct hf_instance_functions *other = hf_instance_forward();
    if (other != NULL)
        return other->route_report != NULL ? other->route_report(out, visit, context) : -ENOTSUP;
    struct telling telling = {.visit = visit, .context = context};
    int result = hf_loader_lock_run(report, &telling);
    if (result == 0 && out != NULL)
        hf_sized_copy(out, &telling.sums, sizeof telling.sums);
    return result;
}
