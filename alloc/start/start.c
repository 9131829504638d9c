/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Starts a copy, once: in libhomefree's constructor, or earlier in the first call into it, because
 * another object's constructor may run before ours. Owns the lock under which a copy starts.
 * Constructors run under the dynamic linker's lock, so two copies never look for each other at the
 * same time; `start` serialises threads within one copy.
 *
 * The starting thread may re-enter: pthread_atfork() may allocate, and in a preloaded process
 * malloc is ours. hf_heap_start() then returns at once, and the heap copes.
 */
#include "alloc/start/start.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/fatal.h"
#include "alloc/base/libc_functions.h"
#include "alloc/base/options_parse.h"
#include "alloc/base/own_calls.h"
#include "alloc/base/seal.h"
#include "alloc/heap/instance.h"
#include "alloc/heap/region.h"
#include "alloc/owner/dispatch.h"
#include "alloc/start/api.h"
#include "alloc/start/fork_handlers.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static pthread_mutex_t start = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(pthread_t) starting;

/* ---- beside an incompatible heap ---- */

static bool is_incompatible(const void *ptr)
{
    const struct hf_instance *heap = hf_instance_incompatible();
    return (uintptr_t)ptr - heap->region_base < heap->region_size;
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
    return is_incompatible(ptr) ? hf_instance_incompatible()->realloc(ptr, size)
                                : hf_libc()->realloc(ptr, size);
}

static void either_free(void *ptr)
{
    if (is_incompatible(ptr))
        hf_instance_incompatible()->free(ptr);
    else
        hf_libc()->free(ptr);
}

static size_t either_usable_size(const void *ptr)
{
    return is_incompatible(ptr) ? hf_instance_incompatible()->usable_size(ptr)
                                : hf_libc()->usable_size((void *)(uintptr_t)ptr);
}

/* It has nothing else. */
static const struct hf_instance_functions without_heap = {
    .heap = {libc_malloc, libc_calloc, either_realloc, libc_aligned, either_free,
             either_usable_size},
};

static void warn_incompatible(const struct link_map *where)
{
    struct hf_text text;
    hf_text_begin(&text);
    hf_text_say(&text,
                "libhomefree " HF_VERSION " (%s) cannot join the heap of libhomefree %s (%s), "
                "whose interface is number %d and not %d; its modules get memory from libc "
                "instead; install one version of homefree for both",
                hf_dynlink_name(hf_dynlink_find(hf_instance_own())),
                hf_instance_incompatible()->version, hf_dynlink_name(where),
                (int)hf_instance_incompatible()->abi, HF_INSTANCE_ABI);
    hf_text_write(&text);
}

/* ---- finding the heap ---- */

static const struct hf_instance *heap_in(const struct link_map *map)
{
    struct hf_object object;
    if (!hf_dynlink_open(map, &object))
        return NULL;
    const struct hf_instance *found = hf_object_address(&object, "hf_instance_record");
    if (found == NULL || found == hf_instance_own() ||
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

/* Not inlined, to keep its buffer out of the callers' frames: the heap may start on a stack of 16
 * KiB. */
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
    if (hf_region_reserve(hf_options.region) != 0 ||
        !hf_heap_boot((enum hf_checks)hf_options.checks))
        fail("fatal: no memory to start the heap; raise the limits on memory, on data (ulimit -d), "
             "on address space (ulimit -v) and on mappings (vm.max_map_count)");
    (void)hf_fork_handlers_register(true);
    hf_instance_offer(hf_api_offer);
    hf_instance_become_heap();
}

static void become_forwarder(const struct hf_instance *heap, const struct link_map *where)
{
    (void)hf_fork_handlers_register(false);
    hf_instance_become_forwarder(heap, &without_heap);
    if (hf_instance_incompatible() != NULL)
        warn_incompatible(where);
}

void hf_heap_start(void)
{
    if (HF_LIKELY(hf_instance_started()))
        return;
    if (atomic_load(&starting) == pthread_self())
        return;
    int saved_errno = errno; /* for a free() that starts the heap */
    hf_own_calls_bind();
    pthread_mutex_lock(&start);
    if (!hf_instance_started()) {
        const struct link_map *where = NULL;
        atomic_store(&starting, pthread_self());
        hf_libc_start();
        const struct hf_instance *heap = find_heap(&where);
        if (heap != NULL)
            become_forwarder(heap, where);
        else
            become_heap();
        atomic_store(&starting, 0);
        hf_instance_publish();
    }
    pthread_mutex_unlock(&start);
    errno = saved_errno;
}

void hf_alloc_start_stages(void)
{
    static bool done;
    if (done)
        return;
    done = true;
    hf_seal_prepare();
    hf_heap_start();
    hf_dispatch_start();
}
