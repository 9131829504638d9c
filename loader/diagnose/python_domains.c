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
#include "loader/host/pymalloc.h"

#include <link.h>
#include <stdatomic.h>
#include <string.h>

/* pymalloc's largest request. The same in all versions on 64-bit machines. */
#define SMALL 512

static union {
    struct {
        struct hf_py_thread *(*current_thread)(void);
        struct hf_py_allocator below[HF_PY_DOMAINS];
        const struct hf_cpython *cpython;
    };
    char pages[HF_SEAL_SIZE(struct hf_py_allocator[HF_PY_DOMAINS + 1])];
} table HF_SEALED;

/* ---- threads without the GIL ---- */

/* The calling thread's state that was found to be attached last. Its address may be that of another
 * thread's state later; a call without the GIL is missed then. */
static __thread const struct hf_py_thread *attached __attribute__((tls_model("initial-exec")));

/*
 * Since 3.12 the current state is a thread-local variable, for which CPython's function has to call
 * the dynamic linker if it lies in a library. `word` is the variable's distance from the thread
 * pointer, the same in all threads if the library was loaded with the program; 0 while it is
 * unknown. CPython's thread-local data lies between `first` and `end`, which are equal if each
 * thread has it somewhere else.
 */
static _Atomic(intptr_t) word;
static intptr_t first, end;
static atomic_bool has_no_word;

static inline const char *thread_pointer(void)
{
#if defined(__x86_64__) && !defined(__clang__) && __GNUC__ < 11
    /* GCC has the builtin on x86-64 from 11 on. The word at the thread pointer is its own address.
     */
    const char *pointer;
    __asm__("movq %%fs:0, %0" : "=r"(pointer));
    return pointer;
#else
    return __builtin_thread_pointer();
#endif
}

static inline const struct hf_py_thread *read_word(intptr_t offset)
{
    const struct hf_py_thread *value;
    memcpy(&value, thread_pointer() + offset, sizeof value);
    return value;
}

/* Whether data at that distance belongs to the block that each thread has beside its thread
 * pointer. What the dynamic linker allocates for a library that came later lies elsewhere, and in
 * another thread nothing may be mapped at the same distance. */
static bool is_static(intptr_t start, intptr_t behind)
{
    const intptr_t limit = 0x10000;
#if defined(__x86_64__)
    return start > -limit && behind <= 0; /* TLS variant II of the ELF ABI: below it */
#else
    return start >= 0 && behind < limit; /* variant I: above it */
#endif
}

static int find_thread_data(struct dl_phdr_info *info, size_t size, void *map)
{
    (void)size;
    if (info->dlpi_addr != ((const struct link_map *)map)->l_addr || info->dlpi_tls_data == NULL)
        return 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS) {
            const intptr_t start = (const char *)info->dlpi_tls_data - thread_pointer();
            const intptr_t behind = start + (intptr_t)info->dlpi_phdr[i].p_memsz;
            if (is_static(start, behind)) {
                first = start;
                end = behind;
            }
        }
    return 1;
}

/* Finds the variable, which is the only one that holds the current state, or sees that it is not
 * where it was found in another thread. */
static void find_word(const struct hf_py_thread *current)
{
    intptr_t found = 0;
    const intptr_t known = atomic_load(&word);
    for (intptr_t at = first; at + (intptr_t)sizeof current <= end; at += (intptr_t)sizeof current)
        if (read_word(at) == current)
            found = found == 0 ? at : 1;
    if (found == 0 || found == 1 || (known != 0 && known != found)) {
        atomic_store(&has_no_word, true);
        atomic_store(&word, 0);
    } else if (!atomic_load(&has_no_word)) {
        atomic_store(&word, found);
    }
}

/*
 * Whether the thread may call CPython. Since 3.12 the current state is the thread's own. Before, it
 * is whoever holds the GIL. PyGILState_Check() compares with the first state of this thread, which
 * may have others, and says yes to everybody once there have been subinterpreters, whose states may
 * be used by any thread.
 */
static bool find_attached(void)
{
    const struct hf_cpython *cpython = table.cpython;
    const struct hf_py_thread *current = cpython->current_thread();
    if (current == NULL || (cpython->version < 0x30c && cpython->gil_check != NULL &&
                            cpython->gil_check() == 0 && !hf_cpython_attached(cpython)))
        return cpython->is_initialized() == 0; /* it starts or ends, and does as it likes */
    if (cpython->version >= 0x30c && current != attached)
        find_word(current);
    attached = current;
    return true;
}

/* Whether the thread is attached to the state that was found last. */
static inline bool is_attached(void)
{
    const intptr_t offset = atomic_load_explicit(&word, memory_order_relaxed);
    const struct hf_py_thread *current =
        HF_LIKELY(offset != 0) ? read_word(offset) : table.current_thread();
    return HF_LIKELY(current == attached) && HF_LIKELY(current != NULL);
}

/* Whether the thread may call CPython. If not, that is a finding. */
static bool may_call(const void *ptr, struct hf_call_site call)
{
    if (is_attached() || find_attached())
        return true;
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
static __attribute__((noinline)) void *claim(void *ptr, size_t size, struct hf_call_site call)
{
    struct hf_footer footer;
    size_t capacity;
    if (hf_guarded_holds(ptr))
        return hf_debug_heap_claim(ptr, size, call);
    if (hf_hosted_of(ptr) != NULL || !hf_block_has_footer(ptr) ||
        (capacity = hf_heap_capacity(ptr)) == 0 ||
        hf_footer_read(ptr, capacity, &footer) != HF_FOOTER_LIVE)
        return ptr;
    hf_count(hf_site_object(footer.site), hf_site_of(call.caller, call.function).object,
             hf_footer_asked(capacity, footer));
    return hf_block_mark(ptr, capacity, size != 0 ? size : 1, call);
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
#define RARELY     static __attribute__((noinline))
#define FREQUENTLY static inline __attribute__((always_inline))

RARELY void *allocate_rarely(enum hf_py_domain domain, size_t size, struct hf_call_site call)
{
    if (!may_call(NULL, call) || size > SMALL)
        return hf_debug_heap_allocate(0, size, call);
    const struct hf_py_allocator *below = &table.below[domain];
    void *ptr = below->malloc(below->ctx, size);
    return hf_owned(ptr) ? claim(ptr, size, call) : ptr;
}

FREQUENTLY void *allocate(enum hf_py_domain domain, size_t size, struct hf_call_site call)
{
    if (HF_UNLIKELY(size > SMALL) || HF_UNLIKELY(!is_attached()))
        return allocate_rarely(domain, size, call);
    const struct hf_py_allocator *below = &table.below[domain];
    void *ptr = below->malloc(below->ctx, size);
    return HF_UNLIKELY(hf_owned(ptr)) ? claim(ptr, size, call) : ptr;
}

RARELY void *clear(enum hf_py_domain domain, size_t count, size_t size, struct hf_call_site call)
{
    size_t bytes;
    if (!may_call(NULL, call) || __builtin_mul_overflow(count, size, &bytes) || bytes > SMALL)
        return hf_debug_heap_clear(count, size, call);
    const struct hf_py_allocator *below = &table.below[domain];
    void *ptr = below->calloc(below->ctx, count, size);
    return hf_owned(ptr) ? claim(ptr, bytes, call) : ptr;
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
    hf_python_call.ptr = NULL;
    return hf_owned(resized) ? claim(resized, size, call) : resized;
}

RARELY void release_rarely(enum hf_py_domain domain, void *ptr, struct hf_call_site call)
{
    if (ptr == NULL)
        return;
    const bool attached_here = may_call(ptr, call);
    if (is_block(ptr)) {
        hf_hot_free(ptr, HF_NOTHING_STATED, call);
    } else if (attached_here) {
        const struct hf_py_allocator *below = &table.below[domain];
        hf_python_call = (struct hf_python_call){ptr, call};
        below->free(below->ctx, ptr);
        hf_python_call.ptr = NULL;
    }
}

FREQUENTLY void release(enum hf_py_domain domain, void *ptr, struct hf_call_site call)
{
    if (HF_UNLIKELY(hf_owned(ptr)) || HF_UNLIKELY(!is_attached())) {
        release_rarely(domain, ptr, call);
        return;
    }
    const struct hf_py_allocator *below = &table.below[domain];
    hf_python_call = (struct hf_python_call){ptr, call};
    below->free(below->ctx, ptr);
    hf_python_call.ptr = NULL;
}

/* The functions of CPython that lead here end in a jump, so the return address is their caller's.
 */
#define HOOKS(name, domain, family)                                  \
    static void *name##_malloc(void *ctx, size_t size)               \
    {                                                                \
        (void)ctx;                                                   \
        return allocate(domain, size, HF_CALL(family##_Malloc));     \
    }                                                                \
    static void *name##_calloc(void *ctx, size_t count, size_t size) \
    {                                                                \
        (void)ctx;                                                   \
        return clear(domain, count, size, HF_CALL(family##_Calloc)); \
    }                                                                \
    static void *name##_realloc(void *ctx, void *ptr, size_t size)   \
    {                                                                \
        (void)ctx;                                                   \
        return resize(domain, ptr, size, HF_CALL(family##_Realloc)); \
    }                                                                \
    static void name##_free(void *ctx, void *ptr)                    \
    {                                                                \
        (void)ctx;                                                   \
        release(domain, ptr, HF_CALL(family##_Free));                \
    }
HOOKS(mem, HF_PY_MEM, PyMem)
HOOKS(object, HF_PY_OBJECT, PyObject)

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

static const struct hf_py_allocator hooks[HF_PY_DOMAINS] = {
    [HF_PY_RAW] = {NULL, raw_malloc, raw_calloc, raw_realloc, raw_free},
    [HF_PY_MEM] = {NULL, mem_malloc, mem_calloc, mem_realloc, mem_free},
    [HF_PY_OBJECT] = {NULL, object_malloc, object_calloc, object_realloc, object_free},
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
        if (bottom.malloc != hooks[domain].malloc)
            return false;
    }
    return true;
}

void hf_python_domains_install(const struct hf_cpython *cpython)
{
    struct hf_py_allocator below[HF_PY_DOMAINS];
    struct hf_seal seal;
    if (table.cpython != NULL || cpython->free_threaded || cpython->is_initialized() != 0)
        return;
    for (enum hf_py_domain domain = HF_PY_RAW; domain < HF_PY_DOMAINS; domain++) {
        cpython->get_allocator(domain, &below[domain]);
        if (!is_plain(cpython, &below[domain]))
            return;
    }
    if (!hf_seal_open(&seal))
        return;
    memcpy(table.below, below, sizeof below);
    table.current_thread = cpython->current_thread;
    table.cpython = cpython;
    hf_seal_close(&seal);
    hf_python_offer(are_watched, (const void *)cpython->set_allocator);
    (void)dl_iterate_phdr(find_thread_data, (void *)(uintptr_t)cpython->map);
    hf_pymalloc_record(cpython);
    for (enum hf_py_domain domain = HF_PY_RAW; domain < HF_PY_DOMAINS; domain++) {
        struct hf_py_allocator hook = hooks[domain];
        cpython->set_allocator(domain, &hook);
    }
}
