/*
 * What libhomefree-diagnose.so exports in front of libc and the C++ runtime: the malloc family and
 * the operators, each a function of its own, so that the name in the caller's slot says which one
 * was called. An address would not: linkers fold operator delete and operator delete[] of the C++
 * runtime into one.
 *
 * Owns nothing, takes no lock. Callable at any stage. Compiled with unwind tables, because
 * operator new lets the runtime's exception pass.
 */
#include "alloc/base/dynlink.h"
#include "alloc/base/fatal.h"
#include "alloc/diagnose/hot.h"
#include "alloc/diagnose/diagnosis.h"

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

/* Names of our own with libc's as assembler labels, because libc's headers declare those with
 * attributes that a definition would have to repeat. */
#define DEFINE(result, name, ...)                               \
    EXPORTED result process_##name(__VA_ARGS__) __asm__(#name); \
    result process_##name(__VA_ARGS__)

#define CALL(function) ((struct hf_call_site){HF_FUNCTION_##function, __builtin_return_address(0)})
#define NOTHING_STATED ((struct hf_stated){NULL, NULL})

/* ---- the malloc family ---- */

DEFINE(void *, malloc, size_t size)
{
    return hf_hot_allocate(size, CALL(malloc));
}

DEFINE(void *, calloc, size_t count, size_t size)
{
    return hf_diagnosed_clear(count, size, CALL(calloc));
}

DEFINE(void *, realloc, void *ptr, size_t size)
{
    return hf_diagnosed_resize(ptr, size, CALL(realloc));
}

DEFINE(void *, reallocarray, void *ptr, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return hf_diagnosed_resize(ptr, bytes, CALL(reallocarray));
}

DEFINE(void *, aligned_alloc, size_t alignment, size_t size)
{
    return hf_diagnosed_aligned(alignment, size, CALL(aligned_alloc));
}

DEFINE(void *, memalign, size_t alignment, size_t size)
{
    return hf_diagnosed_aligned(alignment, size, CALL(memalign));
}

DEFINE(int, posix_memalign, void **out, size_t alignment, size_t size)
{
    return hf_diagnosed_posix_memalign(out, alignment, size, CALL(posix_memalign));
}

DEFINE(void *, valloc, size_t size)
{
    return hf_diagnosed_allocate((size_t)sysconf(_SC_PAGESIZE), size, CALL(valloc));
}

DEFINE(void *, pvalloc, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t rounded = size == 0 ? page : (size + page - 1) & -page;
    if (rounded >= size)
        return hf_diagnosed_allocate(page, rounded, CALL(pvalloc));
    errno = ENOMEM;
    return NULL;
}

DEFINE(size_t, malloc_usable_size, void *ptr)
{
    return hf_diagnosed_usable(ptr, CALL(malloc_usable_size));
}

DEFINE(void, free, void *ptr)
{
    hf_hot_free(ptr, CALL(free));
}

DEFINE(void, cfree, void *ptr)
{
    hf_hot_free(ptr, CALL(cfree));
}

DEFINE(void, free_sized, void *ptr, size_t size)
{
    hf_diagnosed_free(ptr, (struct hf_stated){&size, NULL}, CALL(free_sized));
}

DEFINE(void, free_aligned_sized, void *ptr, size_t alignment, size_t size)
{
    hf_diagnosed_free(ptr, (struct hf_stated){&size, &alignment}, CALL(free_aligned_sized));
}

/* ---- operator new ---- */

/*
 * The C++ runtime's operator, which calls the handler and throws: the definition behind ours that
 * the caller can see. It finds out for itself that there is no memory.
 */
static void *real_operator(const char *name, const void *caller)
{
    const struct link_map *first[HF_NAMESPACES_MAX];
    const struct link_map *own = hf_dynlink_find(&hf_diagnosed_allocate);
    struct hf_object object;
    (void)caller;
    if (hf_dynlink_namespaces(first) != 0)
        for (const struct link_map *map = first[0]; map != NULL; map = map->l_next) {
            void *found = map != own && hf_dynlink_open(map, &object)
                              ? hf_object_address(&object, name)
                              : NULL;
            if (found != NULL)
                return found;
        }
    struct hf_text text;
    hf_text_begin(&text);
    hf_text_add(&text, "fatal: out of memory in ");
    hf_text_add(&text, name);
    hf_text_add(&text, ", and no C++ runtime is loaded that could throw std::bad_alloc");
    hf_fatal(&text);
}

typedef void *new_function(size_t size, size_t second, size_t third);

#define NEW(symbol, parameters, alignment, second, third)                                         \
    EXPORTED void *process##symbol parameters __asm__(#symbol);                                   \
    void *process##symbol parameters                                                              \
    {                                                                                             \
        void *ptr = alignment == 0 ? hf_hot_allocate(size, CALL(symbol))                          \
                                   : hf_diagnosed_allocate(alignment, size, CALL(symbol));        \
        if (__builtin_expect(ptr != NULL, 1))                                                     \
            return ptr;                                                                           \
        new_function *real = (new_function *)real_operator(#symbol, __builtin_return_address(0)); \
        ptr = real(size, second, third);                                                          \
        return hf_diagnosed_claim(ptr, size, CALL(symbol));                                       \
    }
#define HF_NEW_0_0(symbol) NEW(symbol, (size_t size), 0, 0, 0)
#define HF_NEW_1_0(symbol) NEW(symbol, (size_t size, size_t nothrow), 0, nothrow, 0)
#define HF_NEW_0_1(symbol) NEW(symbol, (size_t size, size_t alignment), alignment, alignment, 0)
#define HF_NEW_1_1(symbol) \
    NEW(symbol, (size_t size, size_t alignment, size_t nothrow), alignment, alignment, nothrow)
#define HF_NEW(symbol, nothrow, aligned) HF_NEW_##nothrow##_##aligned(symbol)

/* ---- operator delete ---- */

/* By what the mangled name's parameters state. */
#define DELETE(symbol, parameters, stated)                     \
    EXPORTED void process##symbol parameters __asm__(#symbol); \
    void process##symbol parameters                            \
    {                                                          \
        hf_diagnosed_free(ptr, stated, CALL(symbol));          \
    }
#define STATED_SIZE      ((struct hf_stated){&size, NULL})
#define STATED_ALIGNMENT ((struct hf_stated){NULL, &alignment})
#define STATED_BOTH      ((struct hf_stated){&size, &alignment})

DELETE(_ZdlPv, (void *ptr), NOTHING_STATED)
DELETE(_ZdaPv, (void *ptr), NOTHING_STATED)
DELETE(_ZdlPvm, (void *ptr, size_t size), STATED_SIZE)
DELETE(_ZdaPvm, (void *ptr, size_t size), STATED_SIZE)
DELETE(_ZdlPvRKSt9nothrow_t, (void *ptr), NOTHING_STATED)
DELETE(_ZdaPvRKSt9nothrow_t, (void *ptr), NOTHING_STATED)
DELETE(_ZdlPvSt11align_val_t, (void *ptr, size_t alignment), STATED_ALIGNMENT)
DELETE(_ZdaPvSt11align_val_t, (void *ptr, size_t alignment), STATED_ALIGNMENT)
DELETE(_ZdlPvmSt11align_val_t, (void *ptr, size_t size, size_t alignment), STATED_BOTH)
DELETE(_ZdaPvmSt11align_val_t, (void *ptr, size_t size, size_t alignment), STATED_BOTH)
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void *ptr, size_t alignment), STATED_ALIGNMENT)
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void *ptr, size_t alignment), STATED_ALIGNMENT)

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
    return hf_diagnose_close(handle);
}
