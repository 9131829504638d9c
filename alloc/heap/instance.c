/*
 * Owns the record, hf_forward and the start. Started once, from the constructor below, or earlier
 * by the first call into this copy (another object's constructor may run before ours). Constructors
 * run under the loader's lock, so two copies never look for each other at the same time; `start`
 * serialises threads within one copy.
 *
 * While starting, the same thread may come back in (pthread_atfork may allocate, and in a
 * preloaded process malloc is ours): hf_heap_start() then returns at once, and jemalloc copes.
 */
#include "alloc/heap/instance.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/fatal.h"
#include "alloc/base/options.h"
#include "alloc/base/seal.h"
#include "alloc/deleter/release.h"
#include "alloc/heap/fork_gate.h"
#include "alloc/heap/region.h"
#include "alloc/owner/foreign.h"
#include "alloc/trace/watch.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* Exported twice over: inlined hf_owns() reads it through the GOT, because a program may hold it in
 * a COPY relocation; the heap itself reads hf_region. With two copies in one scope the name means
 * the first one's; the alias is always our own, for who asks this very copy (dlsym). */
struct hf_region_range hf_region_range;
extern struct hf_region_range own_range
    __attribute__((alias("hf_region_range"), visibility("hidden")));

/* What this copy calls instead of its own functions, and what others call of it. */
static union {
    struct hf_instance_calls {
        const struct hf_heap_functions *heap; /* hf_forward */
        const struct hf_instance_functions *forward;
        const struct hf_instance *incompatible; /* the heap of another ABI */
        struct hf_instance_functions functions;
    } it;
    char pages[HF_SEAL_SIZE(struct hf_instance_calls)];
} calls HF_SEALED = {
    .it.functions =
        {
            .heap = {hf_malloc, hf_calloc, hf_realloc, hf_memalign, hf_free, hf_usable_size},
            .owner_of = hf_owner_of,
            .stats = hf_stats,
            .release_make = hf_release_make,
            .watch_begin = hf_watch_begin_here,
        },
};
extern const struct hf_heap_functions *hf_forward __attribute__((alias("calls")));

static union {
    struct hf_instance it;
    char pages[HF_SEAL_SIZE(struct hf_instance)];
} record HF_SEALED = {
    .it =
        {
            .magic = HF_INSTANCE_MAGIC,
            .abi = HF_INSTANCE_ABI,
            .version = HF_VERSION,
            .free = hf_free,
            .realloc = hf_realloc,
            .usable_size = hf_usable_size,
            .functions = &calls.it.functions,
        },
};
/* The name that other copies look up; an alias, so that no other copy can take its place here. */
extern struct hf_instance hf_instance_record __attribute__((alias("record")));

static pthread_mutex_t start = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(bool) started;
static _Atomic(pthread_t) starting;

static char jemalloc_options[256];

const struct hf_instance_functions *hf_instance_forward(void)
{
    return calls.it.forward;
}

bool hf_instance_started(void)
{
    return atomic_load_explicit(&started, memory_order_acquire);
}

void hf_instance_offer_routing(int (*route)(void),
                               int (*report)(struct hf_route_report *, hf_route_visitor *, void *),
                               int (*adopt)(void *handle))
{
    struct hf_seal seal;
    if (!hf_seal_open(&seal))
        return;
    calls.it.functions.adopt = adopt;
    calls.it.functions.route = route;
    calls.it.functions.route_report = report;
    hf_seal_close(&seal);
}

void hf_instance_offer_python(int (*install)(const struct hf_python_options *,
                                             struct hf_python_state *),
                              int (*uninstall)(void))
{
    struct hf_seal seal;
    if (!hf_seal_open(&seal))
        return;
    calls.it.functions.python_install = install;
    calls.it.functions.python_uninstall = uninstall;
    hf_seal_close(&seal);
}

/* ---- the copy that cannot forward ---- */

static bool is_incompatible(const void *ptr)
{
    return (uintptr_t)ptr - calls.it.incompatible->region_base < calls.it.incompatible->region_size;
}

static void *libc_calloc(size_t count, size_t size)
{
    return hf_libc()->calloc(count, size);
}

static void *libc_malloc(size_t size)
{
    return hf_libc()->malloc(size);
}

static void *libc_aligned(size_t alignment, size_t size)
{
    return hf_libc()->memalign(alignment, size);
}

static void *either_realloc(void *ptr, size_t size)
{
    return is_incompatible(ptr) ? calls.it.incompatible->realloc(ptr, size)
                                : hf_libc()->realloc(ptr, size);
}

static void either_free(void *ptr)
{
    if (is_incompatible(ptr))
        calls.it.incompatible->free(ptr);
    else
        hf_libc()->free(ptr);
}

static size_t either_usable_size(const void *ptr)
{
    return is_incompatible(ptr) ? calls.it.incompatible->usable_size(ptr)
                                : hf_libc()->usable_size((void *)(uintptr_t)ptr);
}

static int no_owner_of(const void *ptr, struct hf_owner *out)
{
    (void)ptr;
    (void)out;
    return -ENOTSUP;
}

static int no_stats(struct hf_stats *out)
{
    (void)out;
    return -ENOTSUP;
}

static int no_route(void)
{
    return -ENOTSUP;
}

static int no_route_report(struct hf_route_report *out, hf_route_visitor *visit, void *context)
{
    (void)out;
    (void)visit;
    (void)context;
    return -ENOTSUP;
}

static const struct hf_instance_functions without_heap = {
    .heap = {libc_malloc, libc_calloc, either_realloc, libc_aligned, either_free,
             either_usable_size},
    .owner_of = no_owner_of,
    .stats = no_stats,
    .route = no_route,
    .route_report = no_route_report,
};

static void warn_incompatible(const struct link_map *theirs)
{
    struct hf_text text;
    hf_text_begin(&text);
    hf_text_add(&text, "libhomefree " HF_VERSION " (");
    hf_text_add(&text, hf_dynlink_name(hf_dynlink_find(&record)));
    hf_text_add(&text, ") cannot join the heap of libhomefree ");
    hf_text_add(&text, calls.it.incompatible->version);
    hf_text_add(&text, " (");
    hf_text_add(&text, hf_dynlink_name(theirs));
    hf_text_add(&text, "), whose interface is number ");
    hf_text_add_decimal(&text, calls.it.incompatible->abi);
    hf_text_add(&text, " and not ");
    hf_text_add_decimal(&text, HF_INSTANCE_ABI);
    hf_text_add(&text, "; its modules get memory from libc instead; install one version of "
                       "homefree for both");
    hf_text_write(&text);
}

/* ---- finding the heap ---- */

static const struct hf_instance *heap_in(const struct link_map *map)
{
    struct hf_object object;
    if (!hf_dynlink_open(map, &object))
        return NULL;
    const struct hf_instance *found = hf_object_address(&object, "hf_instance_record");
    if (found == NULL || found == &record.it ||
        memcmp(found->magic, HF_INSTANCE_MAGIC, sizeof HF_INSTANCE_MAGIC) != 0 ||
        found->state != HF_INSTANCE_HEAP)
        return NULL;
    return found;
}

static const struct hf_instance *find_heap(const struct link_map **where)
{
    const struct link_map *first[HF_NAMESPACES_MAX];
    size_t count = hf_dynlink_namespaces(first);
    for (size_t i = 0; i < count; i++)
        for (const struct link_map *map = first[i]; map != NULL; map = map->l_next) {
            const struct hf_instance *found = heap_in(map);
            if (found != NULL) {
                *where = map;
                return found;
            }
        }
    return NULL;
}

/* ---- starting ---- */

/* Without these stores there is no copy to go on with. */
static void open_or_die(struct hf_seal *seal)
{
    if (hf_seal_open(seal))
        return;
    struct hf_text text;
    hf_text_begin(&text);
    hf_text_add(&text,
                "fatal: cannot make homefree's tables of functions writable to start (errno ");
    hf_text_add_decimal(&text, errno);
    hf_text_add(&text, "); raise the limits on memory and on mappings (vm.max_map_count)");
    hf_fatal(&text);
}

static void become_forwarder(const struct hf_instance *heap, const struct link_map *where)
{
    struct hf_seal seal;
    const bool same = heap->abi == HF_INSTANCE_ABI;
    const struct hf_instance_functions *forward = same ? heap->functions : &without_heap;
    open_or_die(&seal);
    calls.it.incompatible = same ? NULL : heap;
    calls.it.forward = forward;
    calls.it.heap = &forward->heap;
    hf_checks_full = forward->check_freed != NULL;
    record.it.state = HF_INSTANCE_FORWARD;
    hf_seal_close(&seal);
    hf_region.base = heap->region_base;
    hf_region.size = heap->region_size;
    if (!same)
        warn_incompatible(where);
}

/* Apart, for its text: the heap may start on a stack of 16 KiB. */
__attribute__((noinline, noreturn)) static void fail(const char *why)
{
    struct hf_text text;
    hf_text_begin(&text);
    hf_text_add(&text, why);
    hf_fatal(&text);
}

static void become_heap(void)
{
    hf_options_read();
    if (hf_region_reserve(hf_options.region) != 0)
        fail("fatal: cannot reserve address space for the heap; raise the limit on address space "
             "(ulimit -v) above 64 MiB");
    hf_options_for_jemalloc(&hf_options, jemalloc_options, sizeof jemalloc_options);
    if (!hf_heap_boot(jemalloc_options, hf_options.checks != 0))
        fail("fatal: no memory to start the heap; raise the limit on memory or address space "
             "(ulimit -v)");
    /* jemalloc makes its first arena before it reads that option. */
    size_t oversize = HF_OVERSIZE;
    (void)hf_heap_control("arena.0.oversize_threshold", NULL, NULL, &oversize, sizeof oversize);
    (void)hf_gate_register();
    struct hf_seal seal;
    open_or_die(&seal);
    record.it.region_base = hf_region.base;
    record.it.region_size = hf_region.size;
    if (hf_checks_full)
        calls.it.functions.check_freed = hf_check_freed;
    record.it.state = HF_INSTANCE_HEAP;
    hf_seal_close(&seal);
}

/* Volatile: to the compiler, both names are one variable, and one store would do for both. */
static void publish_range(volatile struct hf_region_range *range)
{
    range->base = hf_region.base;
    range->size = hf_region.size;
}

void hf_heap_start(void)
{
    if (HF_LIKELY(hf_instance_started()))
        return;
    if (atomic_load(&starting) == pthread_self())
        return;
    pthread_mutex_lock(&start);
    if (!hf_instance_started()) {
        const struct link_map *where = NULL;
        atomic_store(&starting, pthread_self());
        const struct hf_instance *heap = find_heap(&where);
        if (heap != NULL)
            become_forwarder(heap, where);
        else
            become_heap();
        publish_range(&hf_region_range);
        publish_range(&own_range);
        atomic_store(&starting, 0);
        atomic_store_explicit(&started, true, memory_order_release);
    }
    pthread_mutex_unlock(&start);
}

/* 101: before the constructors of everything that was linked with us, and before routing's. */
__attribute__((constructor(101))) static void construct(void)
{
    hf_heap_start();
}
