/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the former functions of each NumPy's default handler, and a handler of homefree's own as the
 * fallback. They live for ever, because an array keeps its handler. They are written once, under
 * `lock`, which is never held while Python runs. The functions may be called by any thread in which
 * NumPy calls its handler.
 *
 * A process may have several NumPys: private copies in interpreters with a GIL of their own. Each
 * has its own default handler, whose former functions may only be called for its own blocks, and
 * under the GIL of its interpreter (they keep free blocks in static lists). The context of a
 * handler therefore names the functions that it had. A thread without a GIL may still pass the
 * handler's former context, NULL; then everything is left to the heap, whose free() sends a block
 * home.
 */
#include "loader/host/numpy.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/fork_lock.h"
#include "alloc/base/seal.h"
#include "alloc/heap/internal.h"
#include "alloc/trace/watch.h"
#include "loader/host/domains.h"
#include "loader/host/interpreter_heaps.h"
#include "loader/host/shared_blocks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

/* PyDataMem_Handler, version 1. */
struct handler {
    char name[127];
    uint8_t version;
    struct hf_py_data_functions {
        void *ctx;
        void *(*malloc)(void *ctx, size_t size);
        void *(*calloc)(void *ctx, size_t count, size_t size);
        void *(*realloc)(void *ctx, void *ptr, size_t size);
        void (*free)(void *ctx, void *ptr, size_t size);
    } functions;
};

/* Indices into NumPy's C API table, and the first feature version that has them. */
#define API_FEATURE_VERSION 211
#define API_SET_HANDLER     304
#define API_DEFAULT_HANDLER 306
#define FEATURES_1_22       0xf

/* As many NumPys as a process may have in its life. The handlers of those beyond are set as context
 * variables. */
#define NUMPYS_MAX 512

static pthread_mutex_t HF_FORK_LOCK lock = PTHREAD_MUTEX_INITIALIZER;
static size_t taken; /* how many handlers have got new functions */
static HF_SEALED_UNION(struct hf_py_data_functions[NUMPYS_MAX], previous) sealed HF_SEALED;
static atomic_uchar limits[NUMPYS_MAX]; /* of the arrays of each NumPy: the limit's number */
static atomic_bool on;

/* ---- the functions ---- */

enum { LARGE = 4 << 20, PAGE = 4096 };

/* Requests huge pages for a large array, as NumPy does itself. */
static __attribute__((noinline)) void *with_huge_pages(void *ptr, size_t size)
{
    if (ptr != NULL) {
        size_t lead = -(uintptr_t)ptr & (PAGE - 1);
        (void)madvise((char *)ptr + lead, size - lead, MADV_HUGEPAGE);
    }
    return ptr;
}

static bool is_on(void)
{
    return HF_LIKELY(atomic_load_explicit(&on, memory_order_relaxed));
}

static void *data_malloc(void *ctx, size_t size)
{
    const struct hf_py_data_functions *previous = ctx;
    if (HF_LIKELY(is_on() && size < LARGE))
        return hf_malloc(size);
    if (is_on() || previous == NULL)
        return with_huge_pages(HF_FOR_CALLER(hf_malloc(size), size), size);
    return previous->malloc(previous->ctx, size);
}

static void *data_calloc(void *ctx, size_t count, size_t size)
{
    const struct hf_py_data_functions *previous = ctx;
    size_t bytes;
    if (!is_on() && previous != NULL)
        return previous->calloc(previous->ctx, count, size);
    if (__builtin_mul_overflow(count, size, &bytes) || bytes < LARGE)
        return hf_calloc(count, size);
    return with_huge_pages(HF_FOR_CALLER(hf_calloc(count, size), bytes), bytes);
}

/* Moves what an array has in a shared block to a block of its own. */
static void *unshared(void *ptr, size_t size)
{
    void *moved = hf_malloc(size != 0 ? size : 1);
    if (moved == NULL)
        return NULL;
    const size_t old = hf_usable_size(ptr);
    memcpy(moved, ptr, old < size ? old : size);
    if (!hf_shared_blocks_drop(ptr))
        hf_free(ptr);
    return moved;
}

static void *data_realloc(void *ctx, void *ptr, size_t size)
{
    const struct hf_py_data_functions *previous = ctx;
    if (hf_shared_blocks_has(ptr))
        return unshared(ptr, size);
    if (hf_domains_own(ptr) || previous == NULL || (ptr == NULL && is_on()))
        return hf_realloc(ptr, size != 0 ? size : 1);
    return previous->realloc(previous->ctx, ptr, size);
}

/* From 2.5 on, NumPy's functions allocate from CPython's RAW domain, so the heap owns their blocks
 * too, and debug hooks may have added to them. `size` is not used for blocks of the heap: it may
 * differ from the size that was allocated. */
static void data_free(void *ctx, void *ptr, size_t size)
{
    const struct hf_py_data_functions *previous = ctx;
    if (hf_shared_blocks_drop(ptr))
        return;
    if (HF_LIKELY(hf_domains_own(ptr)) || previous == NULL)
        hf_free(ptr);
    else
        previous->free(previous->ctx, ptr, size);
}

/* ---- in an interpreter with a limit ---- */

/* HF_LIMITS_COUNT: of none. ctx: not NULL. */
static unsigned limit_of(void *ctx)
{
    const struct hf_py_data_functions *previous = ctx;
    return atomic_load_explicit(&limits[previous - sealed.previous], memory_order_relaxed);
}

static bool has_room(unsigned limit, size_t size)
{
    if (hf_limited_fits(&hf_limited[limit], size))
        return true;
    (void)hf_limited_refuse(limit);
    return false;
}

static void *malloc_counted(unsigned limit, size_t size)
{
    return has_room(limit, size) ? hf_interpreter_heap_count(limit, hf_malloc(size)) : NULL;
}

static void *counted_malloc(void *ctx, size_t size)
{
    const unsigned limit = ctx != NULL ? limit_of(ctx) : HF_LIMITS_COUNT;
    if (limit == HF_LIMITS_COUNT || !is_on())
        return data_malloc(ctx, size);
    if (HF_LIKELY(size < LARGE))
        return hf_limited_malloc(limit, size, malloc_counted);
    return has_room(limit, size) ? hf_interpreter_heap_count(limit, data_malloc(ctx, size)) : NULL;
}

static void *counted_calloc(void *ctx, size_t count, size_t size)
{
    const unsigned limit = ctx != NULL ? limit_of(ctx) : HF_LIMITS_COUNT;
    size_t bytes;
    if (limit == HF_LIMITS_COUNT || !is_on())
        return data_calloc(ctx, count, size);
    if (__builtin_mul_overflow(count, size, &bytes))
        bytes = SIZE_MAX;
    return has_room(limit, bytes) ? hf_interpreter_heap_count(limit, data_calloc(ctx, count, size))
                                  : NULL;
}

/* What counts grows within its limit (limited.h). Otherwise it counts from now on; it is too late
 * to refuse it. */
static void *counted_realloc(void *ctx, void *ptr, size_t size)
{
    const unsigned limit = ctx != NULL ? limit_of(ctx) : HF_LIMITS_COUNT;
    if (ptr == NULL)
        return counted_malloc(ctx, size);
    if (limit != HF_LIMITS_COUNT && size > hf_usable_size(ptr) &&
        !has_room(limit, size - hf_usable_size(ptr)))
        return NULL;
    void *resized = data_realloc(ctx, ptr, size);
    if (resized != NULL && limit != HF_LIMITS_COUNT && hf_owned(resized))
        (void)hf_limited_claim(limit, resized, true);
    return resized;
}

/* ---- NumPy's side ---- */

/* NumPy's C API table, or NULL if NumPy is not imported or not yet initialised. */
static void **table_of(const struct hf_cpython *cpython)
{
    static const char *const modules[] = {"numpy._core._multiarray_umath",
                                          "numpy.core._multiarray_umath"};
    void **table = NULL;
    for (size_t i = 0; i < sizeof modules / sizeof modules[0] && table == NULL; i++) {
        struct hf_py_object *name = cpython->string(modules[i]);
        struct hf_py_object *module = name != NULL ? cpython->imported(name) : NULL;
        struct hf_py_object *capsule =
            module != NULL ? cpython->attribute(module, "_ARRAY_API") : NULL;
        if (capsule != NULL)
            table = cpython->capsule_pointer(capsule, NULL);
        cpython->clear_error();
        /* The table is static data of NumPy, which is never unloaded. */
        if (capsule != NULL)
            cpython->release(capsule);
        if (module != NULL)
            cpython->release(module);
        if (name != NULL)
            cpython->release(name);
    }
    return table;
}

/* Whether this is the default handler that NumPy has had since 1.22, in its own writable data. */
static bool is_known(const struct handler *handler, void *const *table)
{
    struct hf_object object;
    const struct link_map *map = hf_dynlink_find(table[API_FEATURE_VERSION]);
    if (handler == NULL || map == NULL || hf_dynlink_find(handler) != map ||
        !hf_dynlink_open(map, &object))
        return false;
    hf_object_segments(&object);
    const struct hf_py_data_functions *functions = &handler->functions;
    return hf_object_writable(&object, (uintptr_t)functions) &&
           hf_object_writable(&object, (uintptr_t)(functions + 1) - 1) &&
           strncmp(handler->name, "default_allocator", sizeof handler->name) == 0 &&
           handler->version == 1 && functions->ctx == NULL &&
           hf_dynlink_find((const void *)functions->malloc) == map &&
           hf_dynlink_find((const void *)functions->calloc) == map &&
           hf_dynlink_find((const void *)functions->realloc) == map &&
           hf_dynlink_find((const void *)functions->free) == map;
}

static bool is_taken(const struct handler *handler)
{
    return handler->functions.free == data_free;
}

/* The place of former functions: those of a copy that another interpreter had are there already.
 * NULL: there is no room. */
static const struct hf_py_data_functions *place_of(const struct hf_py_data_functions *functions)
{
    struct hf_seal seal;
    for (size_t i = 0; i < taken; i++)
        if (sealed.previous[i].malloc == functions->malloc)
            return &sealed.previous[i];
    if (taken == NUMPYS_MAX || !hf_seal_open(&seal))
        return NULL;
    sealed.previous[taken] = *functions;
    hf_seal_close(&seal);
    return &sealed.previous[taken++];
}

/* The limit of the calling thread's interpreter. */
static unsigned current_limit(void)
{
    const struct hf_cpython_interpreters *py = hf_cpython_interpreters();
    unsigned number = HF_LIMITS_COUNT;
    if (py != NULL)
        (void)hf_interpreter_heap_limit(
            py->interpreter_id(py->interpreter_of(py->cpython->current_thread())), &number);
    return number;
}

/* Every mixture of old and new functions and contexts works: the new ones accept any pointer, the
 * old ones ignore their context, and the free() and realloc() that the old ones call are routed.
 * Returns whether there was room. */
static bool take(struct handler *handler)
{
    struct hf_py_data_functions *functions = &handler->functions;
    const struct hf_py_data_functions *previous = place_of(functions);
    if (previous == NULL)
        return false;
    const unsigned limit = current_limit();
    const bool counts = limit != HF_LIMITS_COUNT;
    atomic_store(&limits[previous - sealed.previous], (unsigned char)limit);
    __atomic_store_n(&functions->ctx, (void *)(uintptr_t)previous, __ATOMIC_RELEASE);
    __atomic_store_n(&functions->free, data_free, __ATOMIC_RELEASE);
    __atomic_store_n(&functions->realloc, counts ? counted_realloc : data_realloc,
                     __ATOMIC_RELEASE);
    __atomic_store_n(&functions->calloc, counts ? counted_calloc : data_calloc, __ATOMIC_RELEASE);
    __atomic_store_n(&functions->malloc, counts ? counted_malloc : data_malloc, __ATOMIC_RELEASE);
    return true;
}

/* NumPy only reads the handler. */
static const struct handler own = {
    "homefree", 1, {NULL, data_malloc, data_calloc, data_realloc, data_free}};

static bool set_own(const struct hf_cpython *cpython, void *const *table)
{
    struct hf_py_object *(*set_handler)(struct hf_py_object *);
    *(void **)&set_handler = table[API_SET_HANDLER];
    struct hf_py_object *capsule =
        cpython->capsule_new((void *)(uintptr_t)&own, "mem_handler", NULL);
    struct hf_py_object *before = capsule != NULL ? set_handler(capsule) : NULL;
    if (before != NULL)
        cpython->release(before);
    if (capsule != NULL)
        cpython->release(capsule);
    cpython->clear_error();
    return before != NULL;
}

enum hf_python_numpy hf_numpy_install(const struct hf_cpython *cpython)
{
    void **table = table_of(cpython);
    if (table == NULL)
        return HF_PYTHON_NUMPY_ABSENT;
    unsigned (*features)(void);
    *(void **)&features = table[API_FEATURE_VERSION];
    if (features() < FEATURES_1_22)
        return HF_PYTHON_NUMPY_OLD;
    struct hf_py_object *capsule = *(struct hf_py_object **)table[API_DEFAULT_HANDLER];
    struct handler *handler =
        capsule != NULL ? cpython->capsule_pointer(capsule, "mem_handler") : NULL;
    cpython->clear_error();
    hf_domains_see_hooks(cpython);
    atomic_store(&on, true);
    pthread_mutex_lock(&lock);
    const bool known =
        handler != NULL && (is_taken(handler) || (is_known(handler, table) && take(handler)));
    pthread_mutex_unlock(&lock);
    if (known)
        return HF_PYTHON_NUMPY_INSTALLED;
    return set_own(cpython, table) ? HF_PYTHON_NUMPY_CONTEXT : HF_PYTHON_NUMPY_UNKNOWN;
}

bool hf_numpy_frees(const struct hf_cpython *cpython, struct hf_py_object *capsule)
{
    const struct handler *handler =
        capsule != NULL ? cpython->capsule_pointer(capsule, "mem_handler") : NULL;
    cpython->clear_error();
    return handler != NULL && handler->functions.free == data_free;
}

void hf_numpy_uninstall(void)
{
    atomic_store(&on, false);
}
