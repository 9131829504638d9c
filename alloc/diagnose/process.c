/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What libhomefree-diagnose.so exports in front of libc and the C++ runtime: the malloc family and
 * the operators, each a function of its own, so that the name in the caller's slot says which one
 * was called. An address would not: linkers fold operator delete and operator delete[] of the C++
 * runtime into one.
 *
 * Owns nothing, takes no lock. Callable at any stage. Compiled with unwind tables, because
 * operator new lets the runtime's exception pass.
 */
#include "alloc/diagnose/process.h"

#include "alloc/base/alignment.h"
#include "alloc/base/dynlink.h"
#include "alloc/base/fatal.h"
#include "alloc/base/libc_functions.h"
#include "alloc/diagnose/diagnosis.h"
#include "alloc/diagnose/hot.h"
#include "alloc/diagnose/signals.h"
#include "alloc/diagnose/sites.h"
#include "alloc/diagnose/stacks.h"
#include "alloc/diagnose/unloaded.h"
#include "alloc/heap/front_end.h"
#include "alloc/start/family.h"

#include <errno.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

/* Names of our own with libc's as assembler labels, because libc's headers declare those with
 * attributes that a definition would have to repeat. */
#define DEFINE(result, name, ...)                               \
    EXPORTED result process_##name(__VA_ARGS__) __asm__(#name); \
    result process_##name(__VA_ARGS__)

/* ---- the malloc family ---- */

DEFINE(void *, malloc, size_t size)
{
    return hf_hot_allocate(size, HF_FUNCTION_malloc, false);
}

DEFINE(void *, calloc, size_t count, size_t size)
{
    return hf_debug_heap_clear(count, size, HF_CALL(calloc));
}

DEFINE(void *, realloc, void *ptr, size_t size)
{
    return hf_debug_heap_resize(ptr, size, HF_CALL(realloc));
}

DEFINE(void *, reallocarray, void *ptr, size_t count, size_t size)
{
    size_t bytes;
    if (!hf_array_size(count, size, &bytes))
        return NULL;
    if (hf_array_is_served_in_front(ptr))
        return hf_libc()->realloc(NULL, bytes);
    return hf_debug_heap_resize(ptr, bytes, HF_CALL(reallocarray));
}

DEFINE(void *, aligned_alloc, size_t alignment, size_t size)
{
    return hf_debug_heap_aligned(alignment, size, HF_CALL(aligned_alloc));
}

DEFINE(void *, memalign, size_t alignment, size_t size)
{
    return hf_debug_heap_aligned(alignment, size, HF_CALL(memalign));
}

DEFINE(int, posix_memalign, void **out, size_t alignment, size_t size)
{
    return hf_debug_heap_posix_memalign(out, alignment, size, HF_CALL(posix_memalign));
}

DEFINE(void *, valloc, size_t size)
{
    return hf_debug_heap_allocate((size_t)sysconf(_SC_PAGESIZE), size, HF_CALL(valloc));
}

DEFINE(void *, pvalloc, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t rounded = size == 0 ? page : (size + page - 1) & -page;
    if (rounded >= size)
        return hf_debug_heap_allocate(page, rounded, HF_CALL(pvalloc));
    errno = ENOMEM;
    return NULL;
}

DEFINE(size_t, malloc_usable_size, void *ptr)
{
    return hf_debug_heap_usable(ptr, HF_CALL(malloc_usable_size));
}

DEFINE(void, free, void *ptr)
{
    hf_hot_free(ptr, HF_NOTHING_STATED, HF_CALL(free));
}

DEFINE(void, cfree, void *ptr)
{
    hf_hot_free(ptr, HF_NOTHING_STATED, HF_CALL(cfree));
}

DEFINE(void, free_sized, void *ptr, size_t size)
{
    hf_hot_free(ptr, (struct hf_stated){&size, NULL}, HF_CALL(free_sized));
}

DEFINE(void, free_aligned_sized, void *ptr, size_t alignment, size_t size)
{
    hf_debug_heap_free(ptr, (struct hf_stated){&size, &alignment}, HF_CALL(free_aligned_sized));
}

/* ---- what lies behind our functions ---- */

typedef void *any_function(size_t first, size_t second, size_t third);

/* The definition behind ours: libc's or the C++ runtime's. NULL if none is loaded. */
static any_function *next_definition(const char *name)
{
    const struct link_map *own = hf_dynlink_find(&hf_debug_heap_allocate);
    const struct link_map *map = own != NULL ? own->l_next : hf_dynlink_first();
    struct hf_object object;
    void *found = NULL;
    for (; found == NULL && map != NULL; map = map->l_next)
        found = hf_dynlink_open(map, &object) ? hf_object_address(&object, name) : NULL;
    return (any_function *)found;
}

/* The same, looked up once. */
static any_function *remember(const char *name, any_function **known)
{
    any_function *next = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (next == NULL) {
        next = next_definition(name);
        __atomic_store_n(known, next, __ATOMIC_RELAXED);
    }
    return next;
}

/* ---- the operators ---- */

/*
 * A program may replace some of the operators and leave the others, whose defaults call those that
 * it replaced: operator delete(void *, size_t) calls operator delete(void *). The defaults are the
 * C++ runtime's, so ours pass on to them if an object in front of this library has an operator, or
 * a malloc() of its own.
 */
static enum { UNKNOWN, OURS, PROGRAMS } operators;

static const char *const operator_names[] = {
#define HF_NEW(symbol, nothrow, aligned) #symbol,
#define HF_DELETE(symbol, ...)           #symbol,
#include "shim/functions.def"
    "malloc", /* which the runtime's operators call */
};

static bool has_operator(const struct link_map *map)
{
    struct hf_object object;
    if (!hf_dynlink_open(map, &object))
        return false;
    for (size_t i = 0; i < sizeof operator_names / sizeof operator_names[0]; i++)
        if (hf_object_address(&object, operator_names[i]) != NULL)
            return true;
    return false;
}

/* Whether the operators are the program's. Threads that decide at once decide the same. The objects
 * in front of this library came with the process and stay, so the walk needs no lock. */
static __attribute__((noinline)) bool decide_operators(void)
{
    const struct link_map *own = hf_dynlink_find(&hf_debug_heap_allocate);
    const struct link_map *map = hf_dynlink_first();
    bool found = false;
    for (; map != NULL && map != own && !found; map = map->l_next)
        found = has_operator(map);
    __atomic_store_n(&operators, found ? PROGRAMS : OURS, __ATOMIC_RELAXED);
    return found;
}

static inline bool are_programs(void)
{
    if (__builtin_expect(__atomic_load_n(&operators, __ATOMIC_RELAXED) == OURS, 1))
        return false;
    return operators == PROGRAMS || decide_operators();
}

bool hf_process_has_operators(void)
{
    return are_programs();
}

static __attribute__((noreturn)) void cannot_throw(const char *name)
{
    struct hf_text text;
    hf_text_begin(&text);
    hf_text_say(
        &text,
        "fatal: out of memory in %s, and no C++ runtime is loaded that could throw std::bad_alloc",
        name);
    hf_fatal(&text);
}

/* Without memory, the runtime's operator finds that out for itself, calls the handler and throws.
 */
#define NEW(symbol, parameters, alignment, second, third)                                      \
    EXPORTED void *process##symbol parameters __asm__(#symbol);                                \
    void *process##symbol parameters                                                           \
    {                                                                                          \
        static any_function *known;                                                            \
        any_function *next;                                                                    \
        if (are_programs() && (next = remember(#symbol, &known)) != NULL)                      \
            return next(size, second, third);                                                  \
        void *ptr = alignment == 0 ? hf_hot_allocate(size, HF_FUNCTION_##symbol, false)        \
                                   : hf_debug_heap_allocate(alignment, size, HF_CALL(symbol)); \
        if (__builtin_expect(ptr != NULL, 1))                                                  \
            return ptr;                                                                        \
        next = next_definition(#symbol);                                                       \
        if (next == NULL)                                                                      \
            cannot_throw(#symbol);                                                             \
        return hf_debug_heap_claim(next(size, second, third), size, HF_CALL(symbol));          \
    }
#define HF_NEW_0_0(symbol) NEW(symbol, (size_t size), 0, 0, 0)
#define HF_NEW_1_0(symbol) NEW(symbol, (size_t size, size_t nothrow), 0, nothrow, 0)
#define HF_NEW_0_1(symbol) NEW(symbol, (size_t size, size_t alignment), alignment, alignment, 0)
#define HF_NEW_1_1(symbol) \
    NEW(symbol, (size_t size, size_t alignment, size_t nothrow), alignment, alignment, nothrow)
#define HF_NEW(symbol, nothrow, aligned) HF_NEW_##nothrow##_##aligned(symbol)

/* By what the mangled name's parameters state. */
#define DELETE(symbol, parameters, stated, second, third)                 \
    EXPORTED void process##symbol parameters __asm__(#symbol);            \
    void process##symbol parameters                                       \
    {                                                                     \
        static any_function *known;                                       \
        any_function *next;                                               \
        if (are_programs() && (next = remember(#symbol, &known)) != NULL) \
            (void)next((size_t)ptr, second, third);                       \
        else                                                              \
            hf_hot_free(ptr, stated, HF_CALL(symbol));                    \
    }
#define STATED_SIZE      ((struct hf_stated){&size, NULL})
#define STATED_ALIGNMENT ((struct hf_stated){NULL, &alignment})
#define STATED_BOTH      ((struct hf_stated){&size, &alignment})

DELETE(_ZdlPv, (void *ptr), HF_NOTHING_STATED, 0, 0)
DELETE(_ZdaPv, (void *ptr), HF_NOTHING_STATED, 0, 0)
DELETE(_ZdlPvm, (void *ptr, size_t size), STATED_SIZE, size, 0)
DELETE(_ZdaPvm, (void *ptr, size_t size), STATED_SIZE, size, 0)
DELETE(_ZdlPvRKSt9nothrow_t, (void *ptr, size_t tag), HF_NOTHING_STATED, tag, 0)
DELETE(_ZdaPvRKSt9nothrow_t, (void *ptr, size_t tag), HF_NOTHING_STATED, tag, 0)
DELETE(_ZdlPvSt11align_val_t, (void *ptr, size_t alignment), STATED_ALIGNMENT, alignment, 0)
DELETE(_ZdaPvSt11align_val_t, (void *ptr, size_t alignment), STATED_ALIGNMENT, alignment, 0)
DELETE(_ZdlPvmSt11align_val_t, (void *ptr, size_t size, size_t alignment), STATED_BOTH, size,
       alignment)
DELETE(_ZdaPvmSt11align_val_t, (void *ptr, size_t size, size_t alignment), STATED_BOTH, size,
       alignment)
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void *ptr, size_t alignment, size_t tag),
       STATED_ALIGNMENT, alignment, tag)
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void *ptr, size_t alignment, size_t tag),
       STATED_ALIGNMENT, alignment, tag)

#include "shim/functions.def"

/* ---- the end of the process, and of objects ---- */

EXPORTED __attribute__((noreturn)) void process__exit(int status) __asm__("_exit");
EXPORTED __attribute__((noreturn)) void process__Exit(int status) __asm__("_Exit");

void process__exit(int status)
{
    hf_diagnose_end(HF_REPORT_EXIT, status);
    hf_diagnose_leave(status);
}

void process__Exit(int status)
{
    hf_diagnose_end(HF_REPORT_EXIT, status);
    hf_diagnose_leave(status);
}

DEFINE(int, dlclose, void *handle)
{
    /* Looked up by the first call, which may come from a constructor that runs before ours. */
    static any_function *known;
    any_function *next = remember("dlclose", &known);
    hf_unloaded_before();
    int result = next != NULL ? (int)(intptr_t)next((size_t)handle, 0, 0) : -1;
    hf_unloaded_after();
    if (hf_sites_unloaded())
        hf_stacks_unloaded();
    return result;
}

/* ---- sandboxes ---- */

DEFINE(int, prctl, int option, unsigned long second, unsigned long third, unsigned long fourth,
       unsigned long fifth)
{
    static any_function *known;
    typedef int function(int, unsigned long, unsigned long, unsigned long, unsigned long);
    function *const next = (function *)(void (*)(void))remember("prctl", &known);
    if (option == PR_SET_SECCOMP)
        hf_diagnose_confine();
    if (next != NULL)
        return next(option, second, third, fourth, fifth);
    return (int)syscall(SYS_prctl, option, second, third, fourth, fifth);
}

/* seccomp(2) has no other function of libc's. This library's own calls come here too. */
DEFINE(long, syscall, long number, long first, long second, long third, long fourth, long fifth,
       long sixth)
{
    if (number == SYS_seccomp || (number == SYS_prctl && first == PR_SET_SECCOMP))
        hf_diagnose_confine();
#if defined(__x86_64__)
    long result;
    register long in_r10 __asm__("r10") = fourth;
    register long in_r8 __asm__("r8") = fifth;
    register long in_r9 __asm__("r9") = sixth;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(first), "S"(second), "d"(third), "r"(in_r10), "r"(in_r8),
                       "r"(in_r9)
                     : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long in_x8 __asm__("x8") = number;
    register long result __asm__("x0") = first;
    register long in_x1 __asm__("x1") = second;
    register long in_x2 __asm__("x2") = third;
    register long in_x3 __asm__("x3") = fourth;
    register long in_x4 __asm__("x4") = fifth;
    register long in_x5 __asm__("x5") = sixth;
    __asm__ volatile("svc 0"
                     : "+r"(result)
                     : "r"(in_x8), "r"(in_x1), "r"(in_x2), "r"(in_x3), "r"(in_x4), "r"(in_x5)
                     : "memory");
#endif
    if ((unsigned long)result < (unsigned long)-4095)
        return result;
    errno = (int)-result;
    return -1;
}

/* ---- signals ---- */

DEFINE(int, sigaction, int number, const struct sigaction *action, struct sigaction *old)
{
    return hf_signals_action(number, action, old);
}

DEFINE(sighandler_t, signal, int number, sighandler_t handler)
{
    return hf_signals_handle(number, handler);
}
