/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the hooks and what they call, which is written once, before the interpreter starts. Any
 * thread may call a hook at any time: also without the GIL, which is what they look for, in a
 * forked child, and after the interpreter has ended. CPython or others may put their own hooks in
 * front of these, or set these aside (PYTHONMALLOC, `-X dev`): blocks keep their footers and are
 * freed by whoever is asked. See python_domains.h.
 */
#include "loader/diagnose/python_domains.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/seal.h"
#include "alloc/diagnose/findings.h"
#include "alloc/diagnose/guarded_samples.h"
#include "alloc/diagnose/hot.h"
#include "alloc/diagnose/python_calls.h"
#include "alloc/diagnose/sites.h"
#include "alloc/owner/hosted.h"
#include "loader/diagnose/attached.h"
#include "loader/host/mimalloc.h"

#include <stdint.h>
#include <string.h>

/* pymalloc's largest request. The same in all versions on 64-bit machines. */
#define PYMALLOCS 512

static union {
    struct {
        struct hf_py_allocator below[HF_PY_DOMAINS];
        size_t most; /* the largest request that goes to CPython's allocator */
        const struct hf_cpython *cpython;
        const struct hf_py_allocator *hooks;
    };
    char pages[HF_SEAL_SIZE(struct hf_py_allocator[HF_PY_DOMAINS + 1])];
} table HF_SEALED;

/* ---- threads without the GIL ---- */

/* Whether the thread may call CPython. If not, that is a finding. Each thread comes here after it
 * has attached for the first time. In the first of them, CPython's mimalloc works and is found. */
static bool may_call(const void *ptr, struct hf_call_site call)
{
    if (hf_attached_find(table.cpython)) {
        if (table.cpython->free_threaded)
            hf_mimalloc_install(table.cpython);
        return true;
    }
    const uint32_t site = hf_site_of(call.caller, call.function).number;
    struct hf_event event = {.rule = HF_FAULT_NO_GIL, .ptr = ptr};
    *(ptr != NULL ? &event.freed_site : &event.allocated_site) = site;
    hf_finding(&event);
    return false;
}

/* ---- blocks of the heap ---- */

/* pymalloc serves attached threads alone: since 3.12 it crashes otherwise, before it would have
 * been damaged. A thread without the GIL gets blocks of the heap, and pymalloc's stay where they
 * are. */
static __attribute__((noinline, cold)) void *resize_without_gil(void *ptr, size_t size,
                                                                struct hf_call_site call)
{
    const size_t usable = hf_debug_heap_usable(ptr, call);
    void *moved = hf_debug_heap_allocate(0, size, call);
    return moved != NULL ? memcpy(moved, ptr, size < usable ? size : usable) : NULL;
}

/* CPython's allocator returned a block of the heap: it grew out of pymalloc, or pymalloc got no
 * arena. The block becomes the caller's. */
static __attribute__((noinline)) void *claim(void *ptr, struct hf_call_site call)
{
    struct hf_footer footer;
    size_t capacity;
    if (hf_guarded_holds(ptr))
        return hf_debug_heap_claim(ptr, 0, call);
    if (hf_hosted_of(ptr) != NULL || !hf_block_has_footer(ptr) ||
        (capacity = hf_heap_capacity(ptr)) == 0 ||
        hf_footer_read(ptr, capacity, &footer) != HF_FOOTER_LIVE)
        return ptr;
    const size_t asked = hf_footer_asked(capacity, footer);
    hf_count(hf_site_object(footer.site), hf_site_of(call.caller, call.function).object, asked);
    return hf_block_mark(ptr, capacity, asked, call);
}

/* Whether the heap has handed this pointer out. If somebody's hooks return addresses within its
 * blocks, those are for CPython's allocator, which passes them on. */
static inline bool is_block(const void *ptr)
{
    struct hf_footer footer;
    size_t capacity;
    return hf_owned(ptr) &&
           (hf_guarded_holds(ptr) || (hf_hosted_of(ptr) == NULL && hf_block_has_footer(ptr) &&
                                      (capacity = hf_heap_capacity(ptr)) != 0 &&
                                      hf_footer_read(ptr, capacity, &footer) != HF_FOOTER_DAMAGED));
}

/* ---- the hooks ---- */

/* The frequent cases are small blocks of attached threads. The others have functions of their own.
 */
#define RARELY static __attribute__((noinline))

RARELY void *allocate_rarely(enum hf_py_domain domain, size_t size, struct hf_call_site call)
{
    if (!may_call(NULL, call) || size > table.most)
        return hf_hot_allocate_for(size, call);
    const struct hf_py_allocator *below = &table.below[domain];
    void *ptr = below->malloc(below->ctx, size);
    return hf_owned(ptr) ? claim(ptr, call) : ptr;
}

RARELY void *clear_rarely(enum hf_py_domain domain, size_t count, size_t size,
                          struct hf_call_site call)
{
    size_t bytes;
    if (!may_call(NULL, call) || __builtin_mul_overflow(count, size, &bytes) || bytes > table.most)
        return hf_debug_heap_clear(count, size, call);
    const struct hf_py_allocator *below = &table.below[domain];
    void *ptr = below->calloc(below->ctx, count, size);
    return hf_owned(ptr) ? claim(ptr, call) : ptr;
}

RARELY void *resize(enum hf_py_domain domain, void *ptr, size_t size, struct hf_call_site call)
{
    if (ptr == NULL)
        return allocate_rarely(domain, size, call);
    const bool attached_here = may_call(ptr, call);
    if (is_block(ptr))
        return hf_debug_heap_resize(ptr, size != 0 ? size : 1, call);
    if (!attached_here)
        return resize_without_gil(ptr, size, call);
    const struct hf_py_allocator *below = &table.below[domain];
    hf_python_call = (struct hf_python_call){ptr, call};
    void *resized = below->realloc(below->ctx, ptr, size);
    return hf_owned(resized) ? claim(resized, call) : resized;
}

RARELY void release_rarely(enum hf_py_domain domain, void *ptr, struct hf_call_site call)
{
    if (ptr == NULL)
        return;
    const bool attached_here = may_call(ptr, call);
    if (hf_small_free(ptr, HF_NOTHING_STATED, call, 0))
        return;
    if (is_block(ptr)) {
        hf_debug_heap_free(ptr, HF_NOTHING_STATED, call);
    } else if (attached_here) {
        const struct hf_py_allocator *below = &table.below[domain];
        hf_python_call = (struct hf_python_call){ptr, call};
        below->free(below->ctx, ptr);
    }
}

/* The functions of CPython that lead here end in a jump, so the return address is their caller's.
 * They are there twice: is_attached is hf_attached_by_word() or hf_attached_by_fixed(). */
#define HOOKS(name, domain, family, is_attached)                                        \
    static void *name##_malloc(void *ctx, size_t size)                                  \
    {                                                                                   \
        (void)ctx;                                                                      \
        if (HF_UNLIKELY(size > table.most) || HF_UNLIKELY(!is_attached()))              \
            return allocate_rarely(domain, size, HF_CALL(family##_Malloc));             \
        void *ptr = table.below[domain].malloc(table.below[domain].ctx, size);          \
        return HF_UNLIKELY(hf_owned(ptr)) ? claim(ptr, HF_CALL(family##_Malloc)) : ptr; \
    }                                                                                   \
    static void *name##_calloc(void *ctx, size_t count, size_t size)                    \
    {                                                                                   \
        (void)ctx;                                                                      \
        size_t bytes;                                                                   \
        if (HF_UNLIKELY(__builtin_mul_overflow(count, size, &bytes)) ||                 \
            HF_UNLIKELY(bytes > table.most) || HF_UNLIKELY(!is_attached()))             \
            return clear_rarely(domain, count, size, HF_CALL(family##_Calloc));         \
        void *ptr = table.below[domain].calloc(table.below[domain].ctx, count, size);   \
        return HF_UNLIKELY(hf_owned(ptr)) ? claim(ptr, HF_CALL(family##_Calloc)) : ptr; \
    }                                                                                   \
    static void *name##_realloc(void *ctx, void *ptr, size_t size)                      \
    {                                                                                   \
        (void)ctx;                                                                      \
        return resize(domain, ptr, size, HF_CALL(family##_Realloc));                    \
    }                                                                                   \
    static void name##_free(void *ctx, void *ptr)                                       \
    {                                                                                   \
        (void)ctx;                                                                      \
        const struct hf_call_site call = HF_CALL(family##_Free);                        \
        if (HF_UNLIKELY(hf_owned(ptr)) || HF_UNLIKELY(!is_attached())) {                \
            release_rarely(domain, ptr, call);                                          \
        } else {                                                                        \
            hf_python_call.ptr = ptr;                                                   \
            hf_python_call.site = call;                                                 \
            table.below[domain].free(table.below[domain].ctx, ptr);                     \
        }                                                                               \
    }
HOOKS(mem_by_word, HF_PY_MEM, PyMem, hf_attached_by_word)
HOOKS(mem_by_fixed, HF_PY_MEM, PyMem, hf_attached_by_fixed)
HOOKS(object_by_word, HF_PY_OBJECT, PyObject, hf_attached_by_word)
HOOKS(object_by_fixed, HF_PY_OBJECT, PyObject, hf_attached_by_fixed)

/* The raw domain is malloc(), here under the name that was called. */
static void *raw_malloc(void *ctx, size_t size)
{
    (void)ctx;
    return hf_hot_allocate(size != 0 ? size : 1, HF_FUNCTION_PyMem_RawMalloc, false);
}

static void *raw_calloc(void *ctx, size_t count, size_t size)
{
    (void)ctx;
    return count != 0 && size != 0 ? hf_debug_heap_clear(count, size, HF_CALL(PyMem_RawCalloc))
                                   : hf_debug_heap_clear(1, 1, HF_CALL(PyMem_RawCalloc));
}

static void *raw_realloc(void *ctx, void *ptr, size_t size)
{
    (void)ctx;
    return hf_debug_heap_resize(ptr, size != 0 ? size : 1, HF_CALL(PyMem_RawRealloc));
}

static void raw_free(void *ctx, void *ptr)
{
    (void)ctx;
    hf_hot_free(ptr, HF_NOTHING_STATED, HF_CALL(PyMem_RawFree));
}

#define ALLOCATOR(name)                                                 \
    {                                                                   \
        NULL, name##_malloc, name##_calloc, name##_realloc, name##_free \
    }
static const struct hf_py_allocator by_word[HF_PY_DOMAINS] = {
    [HF_PY_RAW] = ALLOCATOR(raw),
    [HF_PY_MEM] = ALLOCATOR(mem_by_word),
    [HF_PY_OBJECT] = ALLOCATOR(object_by_word),
};
static const struct hf_py_allocator by_fixed[HF_PY_DOMAINS] = {
    [HF_PY_RAW] = ALLOCATOR(raw),
    [HF_PY_MEM] = ALLOCATOR(mem_by_fixed),
    [HF_PY_OBJECT] = ALLOCATOR(object_by_fixed),
};

/* ---- installing ---- */

/* CPython's plain allocators have no context, its debug hooks and everybody else's have one. */
static bool is_plain(const struct hf_cpython *cpython, const struct hf_py_allocator *allocator)
{
    return allocator->ctx == NULL &&
           hf_dynlink_find((const void *)allocator->malloc) == cpython->map &&
           hf_dynlink_find((const void *)allocator->free) == cpython->map;
}

/* Whether the domains still lead here, below CPython's own wrappers. */
static bool are_watched(void)
{
    struct hf_py_allocator bottom;
    for (enum hf_py_domain domain = HF_PY_MEM; domain < HF_PY_DOMAINS; domain++) {
        (void)hf_cpython_bottom(table.cpython, domain, &bottom, NULL);
        if (bottom.malloc != table.hooks[domain].malloc)
            return false;
    }
    return true;
}

void hf_python_domains_install(const struct hf_cpython *cpython)
{
    struct hf_py_allocator below[HF_PY_DOMAINS];
    struct hf_seal seal;
    if (table.cpython != NULL || cpython->is_initialized() != 0)
        return;
    for (enum hf_py_domain domain = HF_PY_RAW; domain < HF_PY_DOMAINS; domain++) {
        cpython->get_allocator(domain, &below[domain]);
        if (!is_plain(cpython, &below[domain]))
            return;
    }
    const struct hf_py_allocator *hooks = hf_attached_start(cpython) ? by_fixed : by_word;
    if (!hf_seal_open(&seal))
        return;
    memcpy(table.below, below, sizeof below);
    table.most = cpython->free_threaded ? SIZE_MAX : PYMALLOCS;
    table.hooks = hooks;
    table.cpython = cpython;
    hf_seal_close(&seal);
    hf_python_offer(are_watched, (const void *)cpython->set_allocator);
    for (enum hf_py_domain domain = HF_PY_RAW; domain < HF_PY_DOMAINS; domain++) {
        struct hf_py_allocator hook = hooks[domain];
        cpython->set_allocator(domain, &hook);
    }
}
