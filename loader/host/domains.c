/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the hooks and the allocators below them. Hooks are installed under the host's lock. Any
 * thread may call a hook at any time (RAW needs no GIL): while the hook is being installed, in a
 * forked child, and after the interpreter has ended.
 *
 * Constraint: CPython's allocator is a structure of five words, which other threads read while it
 * is written. Every mixture of old and new words must therefore work. It does for three reasons: a
 * hook ignores its context, so the old context can stay in place; a hook accepts any pointer; and
 * when an old function of RAW receives a block of the heap, the free() and realloc() that it calls
 * are routed. One of MEM receives none, also in a free-threaded build: free and realloc are written
 * first, so whoever knows of a block that the hook has allocated sees them, too. For the same
 * reasons a hook is never removed.
 *
 * CPython names its allocators (_testinternalcapi.pymem_getallocatorsname()) by comparing the five
 * words of each domain with those of its own. Whoever else's functions are in one of the domains,
 * it raises RuntimeError: "cannot get allocators name". No hook can answer otherwise, and CPython
 * has no call to register a name. Under `homefree run` no domain is hooked, and the names are
 * CPython's.
 */
#include "loader/host/domains.h"

#include "alloc/base/seal.h"
#include "alloc/heap/internal.h"
#include "alloc/owner/hosted.h"
#include "alloc/trace/fail.h"
#include "alloc/trace/watch.h"
#include "loader/host/interpreter_heaps.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#define LAYERS_MAX 8

struct domain {
    const struct hf_py_allocator *_Atomic previous;
    size_t count;
    struct hf_py_allocator saved[LAYERS_MAX]; /* written once, before `previous` points to them */
};
static HF_SEALED_UNION(struct domain[HF_PY_DOMAINS], domains) table HF_SEALED;
static atomic_bool on[HF_PY_DOMAINS];

static inline const struct hf_py_allocator *previous_of(enum hf_py_domain domain)
{
    return atomic_load_explicit(&table.domains[domain].previous, memory_order_acquire);
}

static inline bool is_on(enum hf_py_domain domain)
{
    return HF_LIKELY(atomic_load_explicit(&on[domain], memory_order_relaxed));
}

/*
 * What lies in the heap's region and is no block of the heap's.
 *
 * PREFIXES: debug hooks are in the RAW domain. pymalloc allocates its large blocks from RAW, NumPy
 * its arrays, and the debug hooks return an address inside the heap's block: to the hooks of the
 * other domains and to NumPy's.
 *
 * MIMALLOC: CPython's mimalloc has its pages there. Its own functions free its blocks; RAW's are
 * its, too, from CPython 3.15 on, and freed by any thread.
 */
enum { PREFIXES = 1, MIMALLOC = 2 };
static atomic_uint others;
static const struct hf_hosted *_Atomic mimalloc; /* compared, never called */

void hf_domains_see_mimalloc(const struct hf_hosted *hosted)
{
    atomic_store(&mimalloc, hosted);
    atomic_fetch_or(&others, MIMALLOC);
}

/* Whether an address of the region may be no block of the heap's. */
static inline bool needs_care(enum hf_py_domain domain, const void *ptr)
{
    const unsigned there = atomic_load_explicit(&others, memory_order_relaxed);
    return HF_UNLIKELY(there != 0) && ((domain != HF_PY_RAW && (there & PREFIXES) != 0) ||
                                       ((there & MIMALLOC) != 0 && hf_hosted_of(ptr) != NULL));
}

/* Apart, so that the hooks need no frame. */
static __attribute__((noinline, cold)) bool is_block(enum hf_py_domain domain, const void *ptr)
{
    const void *block;
    const struct hf_hosted *hosted = hf_hosted_of(ptr);
    if (hosted != NULL && hosted == atomic_load(&mimalloc))
        return false;
    return domain == HF_PY_RAW || (atomic_load(&others) & PREFIXES) == 0 ||
           (hf_heap_block(ptr, &block) != 0 && block == ptr);
}

static inline bool is_mine(enum hf_py_domain domain, const void *ptr)
{
    return HF_LIKELY(hf_owned(ptr)) && (!needs_care(domain, ptr) || is_block(domain, ptr));
}

bool hf_domains_own(const void *ptr)
{
    return is_mine(HF_PY_OBJECT, ptr);
}

void hf_domains_see_hooks(const struct hf_cpython *cpython)
{
    struct hf_py_allocator bottom;
    bool debug;
    (void)hf_cpython_bottom(cpython, HF_PY_RAW, &bottom, &debug);
    if (debug)
        atomic_fetch_or(&others, PREFIXES);
}

/* ---- while a watch is open ---- */

/* Watches attribute everything that CPython's functions do to the interpreter, whichever module
 * called them. */
static const void *_Atomic interpreter;

static inline bool is_watched(void)
{
    return HF_UNLIKELY(__atomic_load_n(&hf_watching, __ATOMIC_RELAXED));
}

static __attribute__((noinline, cold)) void *watched_resize(void *ptr, size_t size)
{
    const struct hf_watch_call *const before = hf_watch_call;
    const struct hf_watch_call mine = {.caller = atomic_load(&interpreter)};
    hf_watch_call = &mine;
    void *resized = ptr != NULL ? hf_realloc(ptr, size) : hf_malloc(size);
    hf_watch_call = before;
    return resized;
}

static __attribute__((noinline, cold)) void *watched_calloc(size_t count, size_t size)
{
    const struct hf_watch_call *const before = hf_watch_call;
    const struct hf_watch_call mine = {.caller = atomic_load(&interpreter)};
    hf_watch_call = &mine;
    void *ptr = hf_calloc(count, size);
    hf_watch_call = before;
    return ptr;
}

static __attribute__((noinline, cold)) void watched_free(void *ptr)
{
    const struct hf_watch_call *const before = hf_watch_call;
    const struct hf_watch_call mine = {.caller = atomic_load(&interpreter)};
    hf_watch_call = &mine;
    hf_free(ptr);
    hf_watch_call = before;
}

/* ---- the heaps of interpreters ---- */

static __attribute__((noinline, cold)) void *take_object(size_t size, const void *caller)
{
    void *block;
    return hf_interpreter_heap_take(&block, size, false, caller) ? block : hf_malloc(size);
}

static __attribute__((noinline, cold)) void *clear_object(size_t count, size_t size,
                                                          const void *caller)
{
    size_t bytes;
    void *block;
    return !__builtin_mul_overflow(count, size, &bytes) &&
                   hf_interpreter_heap_take(&block, bytes, true, caller)
               ? block
               : hf_calloc(count, size);
}

static inline bool may_be_object(enum hf_py_domain domain)
{
    return domain == HF_PY_RAW &&
           HF_UNLIKELY(atomic_load_explicit(&hf_interpreter_heaps, memory_order_relaxed));
}

/* ---- what the heap gives ---- */

static inline void *take(enum hf_py_domain domain, size_t size, const void *caller)
{
    return is_watched()            ? watched_resize(NULL, size)
           : may_be_object(domain) ? take_object(size, caller)
                                   : hf_malloc(size);
}

static inline void *clear(enum hf_py_domain domain, size_t count, size_t size, const void *caller)
{
    return is_watched()            ? watched_calloc(count, size)
           : may_be_object(domain) ? clear_object(count, size, caller)
                                   : hf_calloc(count, size);
}

static inline void *resize(void *ptr, size_t size)
{
    return is_watched() ? watched_resize(ptr, size) : hf_realloc(ptr, size);
}

/* ---- where the heap has no memory ---- */

/* What CPython's own allocator has freed is there for MEM alone: the heap cannot have it, and a
 * limit of the process may count it. Whoever frees such a block passes it on to that allocator.
 * A call that is made to fail (homefree/fail.h) gets nothing there either. */

static __attribute__((noinline, cold)) void *cleared_below(size_t count, size_t size)
{
    const struct hf_py_allocator *previous = previous_of(HF_PY_MEM);
    return hf_fail_is_counting() ? NULL : previous->calloc(previous->ctx, count, size);
}

static __attribute__((noinline, cold)) void *moved_below(void *ptr, size_t size)
{
    const struct hf_py_allocator *previous = previous_of(HF_PY_MEM);
    void *moved = hf_fail_is_counting() ? NULL : previous->malloc(previous->ctx, size);
    if (moved != NULL && ptr != NULL) {
        const size_t usable = hf_usable_size(ptr);
        memcpy(moved, ptr, size < usable ? size : usable);
        watched_free(ptr);
    }
    return moved;
}

static inline bool is_missing(enum hf_py_domain domain, const void *ptr)
{
    return domain == HF_PY_MEM && HF_UNLIKELY(ptr == NULL);
}

/* The heap's block, or one from below. `old`: is replaced; may be NULL. */
static inline void *or_below(enum hf_py_domain domain, void *ptr, void *old, size_t size)
{
    return is_missing(domain, ptr) ? moved_below(old, size) : ptr;
}

static inline void *or_zeros(enum hf_py_domain domain, void *ptr, size_t count, size_t size)
{
    return is_missing(domain, ptr) ? cleared_below(count, size) : ptr;
}

/* ---- the hooks ---- */

/* Who asks for no bytes gets one, as from CPython itself: the heap's realloc() to 0 bytes frees,
 * and its blocks of no bytes lie in pages that nobody may read. Before CPython 3.10, pymalloc reads
 * the beginning of the page of whatever is freed. */
#define HOOKS(name, domain)                                                                        \
    static void *name##_malloc(void *ctx, size_t size)                                             \
    {                                                                                              \
        (void)ctx;                                                                                 \
        if (is_on(domain))                                                                         \
            return or_below(domain, take(domain, size + (size == 0), __builtin_return_address(0)), \
                            NULL, size);                                                           \
        const struct hf_py_allocator *previous = previous_of(domain);                              \
        return previous->malloc(previous->ctx, size);                                              \
    }                                                                                              \
    static void *name##_calloc(void *ctx, size_t count, size_t size)                               \
    {                                                                                              \
        (void)ctx;                                                                                 \
        if (is_on(domain)) {                                                                       \
            if (count == 0 || size == 0)                                                           \
                count = size = 1;                                                                  \
            return or_zeros(domain, clear(domain, count, size, __builtin_return_address(0)),       \
                            count, size);                                                          \
        }                                                                                          \
        const struct hf_py_allocator *previous = previous_of(domain);                              \
        return previous->calloc(previous->ctx, count, size);                                       \
    }                                                                                              \
    static void *name##_realloc(void *ctx, void *ptr, size_t size)                                 \
    {                                                                                              \
        (void)ctx;                                                                                 \
        if (is_mine(domain, ptr) || (ptr == NULL && is_on(domain)))                                \
            return or_below(domain, resize(ptr, size + (size == 0)), ptr, size);                   \
        const struct hf_py_allocator *previous = previous_of(domain);                              \
        return previous->realloc(previous->ctx, ptr, size);                                        \
    }                                                                                              \
    static __attribute__((noinline, cold)) void name##_free_with_care(void *ptr)                   \
    {                                                                                              \
        const struct hf_py_allocator *previous = previous_of(domain);                              \
        if (!is_mine(domain, ptr))                                                                 \
            previous->free(previous->ctx, ptr);                                                    \
        else if (is_watched())                                                                     \
            watched_free(ptr);                                                                     \
        else                                                                                       \
            hf_free(ptr);                                                                          \
    }                                                                                              \
    static void name##_free(void *ctx, void *ptr)                                                  \
    {                                                                                              \
        (void)ctx;                                                                                 \
        if (HF_UNLIKELY(!hf_owned(ptr))) {                                                         \
            const struct hf_py_allocator *previous = previous_of(domain);                          \
            previous->free(previous->ctx, ptr);                                                    \
        } else if (is_watched() || needs_care(domain, ptr)) {                                      \
            name##_free_with_care(ptr);                                                            \
        } else {                                                                                   \
            hf_free(ptr);                                                                          \
        }                                                                                          \
    }
HOOKS(raw, HF_PY_RAW)
HOOKS(mem, HF_PY_MEM)
HOOKS(object, HF_PY_OBJECT)

static const struct hf_py_allocator hooks[HF_PY_DOMAINS] = {
    [HF_PY_RAW] = {NULL, raw_malloc, raw_calloc, raw_realloc, raw_free},
    [HF_PY_MEM] = {NULL, mem_malloc, mem_calloc, mem_realloc, mem_free},
    [HF_PY_OBJECT] = {NULL, object_malloc, object_calloc, object_realloc, object_free},
};

static void *allocate(const struct hf_cpython *cpython, enum hf_py_domain domain)
{
    switch (domain) {
    case HF_PY_RAW:
        return cpython->raw_malloc(1);
    case HF_PY_MEM:
        return cpython->mem_malloc(1);
    default:
        return cpython->object_malloc(1);
    }
}

static void release(const struct hf_cpython *cpython, enum hf_py_domain domain, void *ptr)
{
    if (domain == HF_PY_RAW)
        cpython->raw_free(ptr);
    else if (domain == HF_PY_MEM)
        cpython->mem_free(ptr);
    else
        cpython->object_free(ptr);
}

/* Whether an allocation in the domain reaches its hook, whatever is installed above it. Only a
 * trial allocation can tell when others (a profiler) have installed hooks as well. Where the thread
 * is not attached to an interpreter, pymalloc may not be called: from CPython 3.12 on, its state is
 * the interpreter's. */
static bool reaches_hook(const struct hf_cpython *cpython, enum hf_py_domain domain)
{
    if (domain != HF_PY_RAW && !hf_cpython_attached(cpython)) {
        struct hf_py_allocator bottom;
        (void)hf_cpython_bottom(cpython, domain, &bottom, NULL);
        return bottom.malloc == hooks[domain].malloc;
    }
    struct hf_owner owner = {.size = sizeof owner};
    void *ptr = allocate(cpython, domain);
    bool reached = ptr != NULL && hf_owned(ptr) && hf_owner_of(ptr, &owner) == 0 &&
                   owner.kind == HF_OWNER_HEAP;
    release(cpython, domain, ptr);
    return reached;
}

/* Writes into CPython's own data. The functions that accept any pointer are written first. */
static void write_in_place(struct hf_py_allocator *place, const struct hf_py_allocator *hook)
{
    __atomic_store_n(&place->free, hook->free, __ATOMIC_RELEASE);
    __atomic_store_n(&place->realloc, hook->realloc, __ATOMIC_RELEASE);
    __atomic_store_n(&place->calloc, hook->calloc, __ATOMIC_RELEASE);
    __atomic_store_n(&place->malloc, hook->malloc, __ATOMIC_RELEASE);
}

static void write_top(const struct hf_cpython *cpython, enum hf_py_domain domain,
                      struct hf_py_allocator allocator)
{
    const struct hf_py_allocator *hook = &hooks[domain];
    allocator.free = hook->free;
    allocator.realloc = hook->realloc;
    cpython->set_allocator(domain, &allocator);
    allocator.calloc = hook->calloc;
    allocator.malloc = hook->malloc;
    cpython->set_allocator(domain, &allocator);
}

int hf_domain_install(const struct hf_cpython *cpython, enum hf_py_domain domain)
{
    struct domain *mine = &table.domains[domain];
    atomic_store(&interpreter, (const void *)cpython->raw_malloc);
    bool was_on = atomic_exchange(&on[domain], true);
    if (mine->count > 0 && reaches_hook(cpython, domain))
        return 0;
    if (mine->count == LAYERS_MAX) {
        atomic_store(&on[domain], was_on);
        return -ENOSPC;
    }
    hf_domains_see_hooks(cpython);
    struct hf_py_allocator bottom;
    struct hf_py_allocator *place = hf_cpython_bottom(cpython, domain, &bottom, NULL);
    struct hf_seal seal;
    if (!hf_seal_open(&seal)) {
        atomic_store(&on[domain], was_on);
        return -EACCES;
    }
    mine->saved[mine->count] = bottom;
    atomic_store_explicit(&mine->previous, &mine->saved[mine->count], memory_order_release);
    mine->count++;
    hf_seal_close(&seal);
    if (place != NULL)
        write_in_place(place, &hooks[domain]);
    else
        write_top(cpython, domain, bottom);
    return 0;
}

void hf_domain_uninstall(enum hf_py_domain domain)
{
    atomic_store(&on[domain], false);
}

const struct hf_py_allocator *hf_domain_previous(enum hf_py_domain domain)
{
    return previous_of(domain);
}
