/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the stubs and the table of originals.
 *
 * A GOT slot holds only an address, so a stub must find its original from its own identity. Every
 * routed function therefore has HF_STUBS_PER_FUNCTION stubs, which differ in two compiled-in
 * numbers: `function`, and `index`, the position of the original in the table. The behaviour is
 * written once per kind of function, as an inline function that takes these numbers first:
 * release(), resize() and measure() for functions that take a pointer, then those of the loader,
 * then those that map memory (stubs_mapping.h). ENTRIES() at the end turns them into stubs.
 *
 * A stub that does not handle a call itself ends in a jump to the original, without a frame of its
 * own. The original finds the caller's return address, registers and stack as if called directly;
 * dlsym(3), for one, depends on its caller's address. This is why the file is always compiled with
 * optimisation (meson.build).
 *
 * A foreign pointer goes straight to the original until a foreign allocator is known. From then on
 * `call` points to the ask_ function of the same numbers, which looks for the owner first. The
 * lookup therefore costs nothing before.
 *
 * Stubs may be called at any stage and from any thread; those that map memory also in signal
 * handlers. They read the table without a lock. The table is sealed (seal.h); an entry is filled
 * while the seal is open, before its stub's address is stored in a slot.
 */
#include "loader/interpose/stubs.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/seal.h"
#include "alloc/heap/internal.h"
#include "alloc/owner/dispatch.h"
#include "alloc/owner/foreign.h"
#include "alloc/owner/static_data.h"
#include "alloc/space/space_calls.h"
#include "alloc/start/family.h"
#include "loader/foreign/hosted_mappings.h"
#include "loader/foreign/mmap_tracking.h"
#include "loader/foreign/object_role.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* ---- the table ---- */

struct original {
    _Atomic(void *) call;      /* target of the stub: `real`, or the ask_ function */
    _Atomic(void *) real;      /* the original; NULL in free entries */
    struct hf_definer definer; /* the definer of `real` */
    void *stub;                /* NULL if there never was an original */
};
struct originals {
    const struct hf_stub_hooks *hooks;
    /* Stubs look for the owner of pointers that are not the heap's. */
    _Atomic(bool) asking;
    /* While `asking` is false, an address below this is libc's or invalid; 0 once it is true.
     * Stored atomically but read plainly: only then does GCC compare directly with memory. */
    uintptr_t plain_below;
    /* By number and then by function: most functions have one original, and these lie in one page.
     */
    struct original originals[HF_STUBS_PER_FUNCTION][HF_ROUTED_COUNT];
};
static HF_SEALED_UNION(struct originals, all) table HF_SEALED;

/* With constant numbers, each of these is a constant address or a single load. */
#define ORIGINAL(function, index) (&table.all.originals[index][function])
#define CALL(type, function, index) \
    ((type *)atomic_load_explicit(&ORIGINAL(function, index)->call, memory_order_relaxed))
#define REAL(type, function, index) \
    ((type *)atomic_load_explicit(&ORIGINAL(function, index)->real, memory_order_relaxed))

/* The foreign allocator that must get a pointer instead of the original, or NULL. */
#define OWNER_INSTEAD(function, index, ptr) \
    hf_foreign_instead(ptr, &ORIGINAL(function, index)->definer)

/* The code that called the stub. */
#define CALLER __builtin_return_address(0)

#define INLINE static inline __attribute__((always_inline))

/* ---- functions that take a pointer ---- */

/*
 * These functions take the pointer and at most two more sizes or addresses. The ABIs of x86-64 and
 * AArch64 pass all three in caller-saved registers, whatever their types. One type therefore serves
 * all functions of a kind: a stub passes on three arguments even if its caller gave fewer.
 */
typedef void release_function(void *ptr, size_t second, size_t third);
typedef void *resize_function(void *ptr, size_t second, size_t third);
typedef size_t measure_function(void *ptr);

/* The heap's versions, with the parameters that functions.def lists; some of them are unused. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define HF_RELEASES(name, result, parameters, arguments, call) \
    static inline result heap_##name parameters                \
    {                                                          \
        return call;                                           \
    }
#define HF_DELETE(symbol, parameters, arguments, call, form, alignment) \
    HF_RELEASES(symbol, void, parameters, arguments, call)              \
    static inline size_t alignment_##symbol parameters                  \
    {                                                                   \
        return alignment;                                               \
    }
#define HF_RESIZES(name, result, parameters, arguments, call) \
    HF_RELEASES(name, result, parameters, arguments, call)
#define HF_MEASURES(name, result, parameters, arguments, call) \
    HF_RELEASES(name, result, parameters, arguments, call)
#include "shim/functions.def"
#pragma GCC diagnostic pop

/*
 * Index 0 of these functions is reserved for libc's own, whose stubs inspect the pointer first
 * (static_data.h). For other allocators nothing in front of a block may be read, because a block
 * may start where its mapping does.
 */
INLINE bool is_libcs(enum hf_routed function, size_t index)
{
    return index == 0 && (function == HF_ROUTED_free || function == HF_ROUTED_cfree ||
                          function == HF_ROUTED___libc_free || function == HF_ROUTED_realloc ||
                          function == HF_ROUTED___libc_realloc);
}

INLINE bool is_asking(void)
{
    return atomic_load_explicit(&table.all.asking, memory_order_relaxed);
}

/* The common case: a block of libc's. The single comparison also excludes NULL, which wraps to the
 * largest number. */
INLINE bool is_plain(const void *ptr)
{
    return (uintptr_t)ptr - 1 < table.all.plain_below;
}

/* -- free() and its kind, operator delete -- */

typedef void free_function(void *ptr);

static __attribute__((noinline, cold)) void release_suspect(void *ptr, free_function *real,
                                                            const void *caller)
{
    if (!hf_static_freed(ptr, "free", caller))
        real(ptr);
}

INLINE void release_to_libc(enum hf_routed function, size_t index, void *ptr)
{
    if (HF_UNLIKELY(ptr != NULL && hf_static_suspect(ptr)))
        release_suspect(ptr, REAL(free_function, function, index), CALLER);
    else
        REAL(free_function, function, index)(ptr);
}

INLINE void release(enum hf_routed function, size_t index, release_function *heap, void *ptr,
                    size_t second, size_t third)
{
    if (is_libcs(function, index) && HF_LIKELY(is_plain(ptr)))
        return release_to_libc(function, index, ptr);
    if (HF_UNLIKELY(hf_owned(ptr)))
        return heap(ptr, second, third);
    if (is_libcs(function, index) && !is_asking())
        return release_to_libc(function, index, ptr);
    return CALL(release_function, function, index)(ptr, second, third);
}

INLINE void ask_release(enum hf_routed function, size_t index, void *ptr, size_t second,
                        size_t third)
{
    if (is_libcs(function, index) && HF_LIKELY(!hf_foreign_may_own(ptr)))
        return release_to_libc(function, index, ptr);
    const struct hf_foreign_allocator *owner = OWNER_INSTEAD(function, index, ptr);
    if (owner != NULL)
        hf_foreign_call_free(owner, ptr, CALLER);
    else if (is_libcs(function, index))
        release_to_libc(function, index, ptr);
    else
        REAL(release_function, function, index)(ptr, second, third);
}

typedef size_t alignment_function(void *ptr, size_t second, size_t third);

INLINE void ask_delete(enum hf_routed function, size_t index, enum hf_delete_form form,
                       alignment_function *alignment, void *ptr, size_t second, size_t third)
{
    const struct hf_foreign_allocator *owner = OWNER_INSTEAD(function, index, ptr);
    if (owner != NULL)
        hf_foreign_call_delete(owner, form, ptr, alignment(ptr, second, third), CALLER);
    else
        REAL(release_function, function, index)(ptr, second, third);
}

/* -- realloc() and its kind -- */

typedef void *realloc_function(void *ptr, size_t size);

static __attribute__((noinline, cold)) void *
resize_suspect(void *ptr, size_t size, realloc_function *real, const void *caller)
{
    void *moved;
    return hf_static_resized(ptr, size, caller, &moved) ? moved : real(ptr, size);
}

INLINE void *resize_by_libc(enum hf_routed function, size_t index, void *ptr, size_t size)
{
    if (HF_UNLIKELY(ptr != NULL && hf_static_suspect(ptr)))
        return resize_suspect(ptr, size, REAL(realloc_function, function, index), CALLER);
    return REAL(realloc_function, function, index)(ptr, size);
}

INLINE void *resize(enum hf_routed function, size_t index, resize_function *heap, void *ptr,
                    size_t second, size_t third)
{
    if (is_libcs(function, index) && HF_LIKELY(is_plain(ptr)))
        return resize_by_libc(function, index, ptr, second);
    if (HF_UNLIKELY(hf_owned(ptr)))
        return heap(ptr, second, third);
    if (is_libcs(function, index) && !is_asking())
        return resize_by_libc(function, index, ptr, second);
    return CALL(resize_function, function, index)(ptr, second, third);
}

INLINE void *ask_resize(enum hf_routed function, size_t index, void *ptr, size_t second,
                        size_t third)
{
    if (is_libcs(function, index) && HF_LIKELY(!hf_foreign_may_own(ptr)))
        return resize_by_libc(function, index, ptr, second);
    const struct hf_foreign_allocator *owner = OWNER_INSTEAD(function, index, ptr);
    if (owner != NULL) {
        size_t size = second;
        if (function != HF_ROUTED_reallocarray || !__builtin_mul_overflow(second, third, &size))
            return hf_foreign_call_realloc(owner, ptr, size, CALLER);
        errno = ENOMEM;
        return NULL;
    }
    if (is_libcs(function, index))
        return resize_by_libc(function, index, ptr, second);
    return REAL(resize_function, function, index)(ptr, second, third);
}

/* -- malloc_usable_size() -- */

INLINE size_t measure(enum hf_routed function, size_t index, measure_function *heap, void *ptr)
{
    if (HF_UNLIKELY(hf_owned(ptr)))
        return heap(ptr);
    return CALL(measure_function, function, index)(ptr);
}

INLINE size_t ask_measure(enum hf_routed function, size_t index, void *ptr)
{
    const struct hf_foreign_allocator *owner = OWNER_INSTEAD(function, index, ptr);
    if (owner != NULL)
        return hf_foreign_call_usable_size(owner, ptr, CALLER);
    return REAL(measure_function, function, index)(ptr);
}

/* -- CUDA's functions that give memory back -- */

typedef int space_free_function(void *ptr, void *second);

INLINE int free_space(enum hf_routed function, size_t index, void *ptr, void *second, void *stream,
                      enum hf_others_memory meant)
{
    if (HF_LIKELY(!hf_spaces_may_know(ptr)))
        return CALL(space_free_function, function, index)(ptr, second);
    return hf_spaces_returned(&(struct hf_cuda_returned){
        .function = REAL(space_free_function, function, index),
        .ptr = ptr,
        .second = second,
        .stream = stream,
        .meant = meant,
        .caller = CALLER,
    });
}

/* -- and those that hand memory out: they take at most five arguments -- */

#define GIVEN            out, second, third, fourth, fifth
#define GIVEN_PARAMETERS void *out, size_t second, size_t third, size_t fourth, size_t fifth
typedef int space_give_function(GIVEN_PARAMETERS);
typedef size_t bytes_function(size_t second, size_t third, size_t fourth);

INLINE int give_space(enum hf_routed function, size_t index, bytes_function *bytes,
                      enum hf_others_memory memory, const char *release, GIVEN_PARAMETERS)
{
    const struct original *original = ORIGINAL(function, index);
    int result = REAL(space_give_function, function, index)(GIVEN);
    if (HF_UNLIKELY(result != 0))
        return result;
    const bool there = memory == HF_OTHERS_REGISTERED || memory == HF_OTHERS_MAPPED;
    hf_spaces_given(&(struct hf_cuda_given){
        .at = there ? out : *(void **)out,
        .size = bytes(second, third, fourth),
        .memory = memory,
        .function = original->real,
        .map = original->definer.map,
        .release = release,
        .caller = CALLER,
    });
    return 0;
}

/* ---- functions of the loader ---- */

/* These functions depend on the caller's address (search paths, RTLD_NEXT). Their stubs end in a
 * jump to the original, which preserves that address, or let dlopen_hooks.c stand in for the
 * original. */

typedef void *dlmopen_function(Lmid_t namespace, const char *file, int mode);
typedef void *lookup_function(void *handle, const char *symbol, const char *version);

INLINE void *open_object(enum hf_routed function, size_t index, const char *file, int mode)
{
    hf_tracking_loading(true);
    void *handle =
        table.all.hooks->open(REAL(hf_dlopen_function, function, index), file, mode, CALLER);
    hf_tracking_loading(false);
    return handle;
}

/* The caller names the namespace, and a name with a slash needs no search path. Objects opened by a
 * bare name are routed in the next pass. */
INLINE void *open_in_namespace(enum hf_routed function, size_t index, Lmid_t namespace,
                               const char *file, int mode)
{
    if (file == NULL || strchr(file, '/') == NULL)
        return CALL(dlmopen_function, function, index)(namespace, file, mode);
    hf_tracking_loading(true);
    void *handle = REAL(dlmopen_function, function, index)(namespace, file, mode);
    hf_tracking_loading(false);
    return table.all.hooks->loaded(handle);
}

/* Returns the stub to answer a lookup with; NULL if the original should answer the caller. For
 * RTLD_DEFAULT, symbols visible only in the caller's own scope are looked up there. */
static __attribute__((noinline)) void *find_routed(lookup_function *real, void *handle,
                                                   const char *symbol, const char *version,
                                                   const void *caller)
{
    void *local, *found = table.all.hooks->own(handle, symbol, caller, &local);
    if (found != NULL)
        return found;
    if (local != NULL)
        found = real(local, symbol, version);
    if (found == NULL)
        found = real(handle, symbol, version);
    if (found == NULL && local == NULL) {
        local = table.all.hooks->scope(handle, caller);
        if (local != NULL)
            found = real(local, symbol, version);
    }
    return found != NULL ? table.all.hooks->symbol(symbol, found) : NULL;
}

/* dlvsym(3), and dlsym(3), which does not look at the third argument. */
INLINE void *look_up(enum hf_routed function, size_t index, void *handle, const char *symbol,
                     const char *version)
{
    if (HF_UNLIKELY(table.all.hooks->wants(handle, symbol))) {
        void *found =
            find_routed(REAL(lookup_function, function, index), handle, symbol, version, CALLER);
        if (found != NULL)
            return found;
    }
    return CALL(lookup_function, function, index)(handle, symbol, version);
}

#include "loader/interpose/stubs_mapping.h"

/* ---- the stubs ---- */

_Static_assert(HF_STUBS_PER_FUNCTION == 8, "HF_EACH_ORIGINAL makes eight");

/* ENTRIES(prefix, name, body, result, parameters, arguments...) defines `prefix`_`name`_0 to _7,
 * which call `body` with their two numbers and their arguments. */
#define ENTRIES(...) HF_EACH_ORIGINAL(ENTRY, __VA_ARGS__)
#define ENTRY(index, prefix, name, body, result, parameters, ...) \
    static result prefix##_##name##_##index parameters            \
    {                                                             \
        return body(HF_ROUTED_##name, index, __VA_ARGS__);        \
    }
#define ADDRESS(index, prefix, name) (void *)prefix##_##name##_##index,
#define ADDRESSES(prefix, name)                 \
    {                                           \
        HF_EACH_ORIGINAL(ADDRESS, prefix, name) \
    }

#define HEAP(type, name) (type *)(void *)heap_##name
#define RELEASE_STUBS(name)                                                      \
    ENTRIES(stub, name, release, void, (void *ptr, size_t second, size_t third), \
            HEAP(release_function, name), ptr, second, third)
#define HF_RELEASES(name, result, parameters, arguments, call)                                   \
    RELEASE_STUBS(name)                                                                          \
    ENTRIES(ask, name, ask_release, void, (void *ptr, size_t second, size_t third), ptr, second, \
            third)
#define HF_DELETE(symbol, parameters, arguments, call, form, alignment)                      \
    RELEASE_STUBS(symbol)                                                                    \
    ENTRIES(ask, symbol, ask_delete, void, (void *ptr, size_t second, size_t third),         \
            HF_DELETE_##form, (alignment_function *)(void *)alignment_##symbol, ptr, second, \
            third)
#define HF_RESIZES(name, result, parameters, arguments, call)                                     \
    ENTRIES(stub, name, resize, void *, (void *ptr, size_t second, size_t third),                 \
            HEAP(resize_function, name), ptr, second, third)                                      \
    ENTRIES(ask, name, ask_resize, void *, (void *ptr, size_t second, size_t third), ptr, second, \
            third)
#define HF_MEASURES(name, result, parameters, arguments, call)                           \
    ENTRIES(stub, name, measure, size_t, (void *ptr), HEAP(measure_function, name), ptr) \
    ENTRIES(ask, name, ask_measure, size_t, (void *ptr), ptr)
#include "shim/functions.def"

#define HF_SPACE_FREES(name, stream, memory)                                             \
    ENTRIES(stub, name, free_space, int, (void *ptr, void *second), ptr, second, stream, \
            HF_OTHERS_##memory)
#include "shim/functions.def"

#define HF_SPACE_GIVES(name, memory, bytes, release)                                              \
    INLINE size_t bytes_of_##name(size_t second, size_t third, size_t fourth)                     \
    {                                                                                             \
        (void)third, (void)fourth;                                                                \
        return bytes;                                                                             \
    }                                                                                             \
    ENTRIES(stub, name, give_space, int, (GIVEN_PARAMETERS), bytes_of_##name, HF_OTHERS_##memory, \
            #release, GIVEN)
#include "shim/functions.def"

ENTRIES(stub, dlopen, open_object, void *, (const char *file, int mode), file, mode)
ENTRIES(stub, dlmopen, open_in_namespace, void *, (Lmid_t namespace, const char *file, int mode),
        namespace, file, mode)
#define LOOK_UP(name)                                                                             \
    ENTRIES(stub, name, look_up, void *, (void *handle, const char *symbol, const char *version), \
            handle, symbol, version)
LOOK_UP(dlsym)
LOOK_UP(dlvsym)

#define MAP(name)                                                                            \
    ENTRIES(stub, name, map, void *,                                                         \
            (void *address, size_t size, int protection, int flags, int file, off_t offset), \
            address, size, protection, flags, file, offset)
MAP(mmap)
MAP(mmap64)
ENTRIES(stub, munmap, unmap, int, (void *address, size_t size), address, size)
ENTRIES(stub, mremap, remap, void *,
        (void *address, size_t size, size_t new_size, int flags, void *new_address), address, size,
        new_size, flags, new_address)
ENTRIES(stub, sbrk, move_break, void *, (intptr_t increment), increment)
ENTRIES(stub, __sbrk, move_break, void *, (intptr_t increment), increment)
ENTRIES(stub, brk, set_break, int, (void *address), address)
ENTRIES(mapping, syscall, map_by_syscall, __attribute__((noinline)) long,
        (long number, long a, long b, long c, long d, long e, long f), number, a, b, c, d, e, f)
static void *const mappings[] = ADDRESSES(mapping, syscall);
ENTRIES(changing, syscall, change_by_syscall, __attribute__((noinline)) long, (IN_REGISTERS(f)),
        PASS(f))
static void *const changings[] = ADDRESSES(changing, syscall);
#define CALL_SYSTEM(function, index, ...) \
    call_system(function, index, mappings[index], changings[index], __VA_ARGS__)
ENTRIES(stub, syscall, CALL_SYSTEM, long, (IN_REGISTERS(f)), PASS(f))

/* Returns the stub. Like ask_of(), not a table of addresses, which each start would have to
 * relocate: 648 of them, in two pages. */
static __attribute__((noinline)) void *stub_of(enum hf_routed function, size_t index)
{
#define STUB(index, name)                                   \
    case HF_ROUTED_##name *HF_STUBS_PER_FUNCTION + (index): \
        return (void *)stub_##name##_##index;
#define ROW(symbol) HF_EACH_ORIGINAL(STUB, symbol)
    switch ((size_t)function * HF_STUBS_PER_FUNCTION + index) {
#define HF_RELEASES(name, result, parameters, arguments, call) ROW(name)
#define HF_RESIZES(name, result, parameters, arguments, call)  ROW(name)
#define HF_MEASURES(name, result, parameters, arguments, call) ROW(name)
#define HF_DELETE(symbol, ...)                                 ROW(symbol)
#define HF_MAPS(name)                                          ROW(name)
#define HF_SPACE_FREES(name, stream, memory)                   ROW(name)
#define HF_SPACE_GIVES(name, memory, bytes, release)           ROW(name)
#include "shim/functions.def"
        ROW(dlopen)
        ROW(dlmopen)
        ROW(dlsym)
        ROW(dlvsym)
    default:
        return NULL;
    }
}

/* Returns the function that asks foreign allocators first, NULL if they are not asked. */
static __attribute__((noinline)) void *ask_of(enum hf_routed function, size_t index)
{
#define ASK(index, name)                                    \
    case HF_ROUTED_##name *HF_STUBS_PER_FUNCTION + (index): \
        return (void *)ask_##name##_##index;
    switch ((size_t)function * HF_STUBS_PER_FUNCTION + index) {
#define HF_RELEASES(name, result, parameters, arguments, call) HF_EACH_ORIGINAL(ASK, name)
#define HF_RESIZES(name, result, parameters, arguments, call)  HF_EACH_ORIGINAL(ASK, name)
#define HF_MEASURES(name, result, parameters, arguments, call) HF_EACH_ORIGINAL(ASK, name)
#define HF_DELETE(symbol, ...)                                 HF_EACH_ORIGINAL(ASK, symbol)
#include "shim/functions.def"
    default:
        return NULL;
    }
}

const struct hf_live_stubs hf_stubs_live = {
    .originals = table.all.originals,
    .original_size = sizeof(struct original),
    .original_real = offsetof(struct original, real),
    .original_stub = offsetof(struct original, stub),
    .functions = HF_ROUTED_COUNT,
    .per_function = HF_STUBS_PER_FUNCTION,
};

/* ---- filling the table ---- */

/* Stores `real` last: an entry that has it is complete, also in a child forked meanwhile. */
static void fill(enum hf_routed function, size_t index, void *real,
                 const struct hf_definer *definer, bool ask_first)
{
    struct original *original = ORIGINAL(function, index);
    void *ask = ask_of(function, index);
    if (is_libcs(function, index))
        __atomic_store_n(&table.all.plain_below, ask_first ? 0 : hf_region.base - 1,
                         __ATOMIC_SEQ_CST);
    original->definer = *definer;
    original->stub = stub_of(function, index);
    atomic_store(&original->call, ask_first && ask != NULL ? ask : real);
    atomic_store(&original->real, real);
}

/* Returns the index of an original, or HF_STUBS_PER_FUNCTION if it has none; `empty` then receives
 * the first free index that it may use. */
static size_t place_of(enum hf_routed function, const void *original, size_t *empty)
{
    *empty = HF_STUBS_PER_FUNCTION;
    for (size_t i = 0; i < HF_STUBS_PER_FUNCTION; i++)
        if (ORIGINAL(function, i)->real == original)
            return i;
    for (size_t i = HF_STUBS_PER_FUNCTION; i-- > 0;)
        if (ORIGINAL(function, i)->real == NULL &&
            (!is_libcs(function, i) || hf_static_guards(hf_routed_name(function), original)))
            *empty = i;
    return HF_STUBS_PER_FUNCTION;
}

void hf_stubs_for(struct hf_stub_request *requests, size_t count)
{
    struct hf_seal seal;
    struct hf_definer definer = {.map = NULL};
    size_t at, empty;
    bool missing = false;
    /* Before opening the seal: on glibc older than 2.35, finding the definer takes the loader's
     * lock. */
    for (size_t i = 0; i < count; i++) {
        const enum hf_routed function = requests[i].function;
        at = function == HF_ROUTED_madvise ? HF_STUBS_PER_FUNCTION
                                           : place_of(function, requests[i].original, &empty);
        requests[i].stub = at != HF_STUBS_PER_FUNCTION ? ORIGINAL(function, at)->stub : NULL;
        if (requests[i].stub != NULL || function == HF_ROUTED_madvise)
            continue;
        /* Most requests of one call name functions of the same object. */
        const struct link_map *map = hf_dynlink_find(requests[i].original);
        if (!missing || definer.map != map)
            definer = hf_definer_of(requests[i].original);
        requests[i].definer = definer;
        missing = true;
    }
    if (!missing || !hf_seal_open(&seal))
        return;
    for (size_t i = 0; i < count; i++) {
        const enum hf_routed function = requests[i].function;
        if (requests[i].stub != NULL || function == HF_ROUTED_madvise)
            continue;
        at =
            place_of(function, requests[i].original, &empty); /* another thread may have added it */
        if (at == HF_STUBS_PER_FUNCTION && empty != at) {
            fill(function, empty, requests[i].original, &requests[i].definer, table.all.asking);
            at = empty;
        }
        if (at != HF_STUBS_PER_FUNCTION)
            requests[i].stub = ORIGINAL(function, at)->stub;
    }
    hf_seal_close(&seal);
}

void *hf_stub_for(enum hf_routed function, void *original)
{
    struct hf_stub_request request = {.function = function, .original = original};
    if (original == NULL)
        return NULL;
    hf_stubs_for(&request, 1);
    return request.stub;
}

/* A caller that still uses such a stub with a foreign pointer would have jumped into unmapped
 * memory without homefree, too. */
void hf_stubs_forget(void)
{
    struct hf_seal seal;
    bool open = false;
    for (enum hf_routed function = 0; function < HF_ROUTED_COUNT; function++)
        for (size_t i = 0; i < HF_STUBS_PER_FUNCTION; i++) {
            struct original *original = ORIGINAL(function, i);
            if (original->real == NULL || hf_dynlink_find(original->real) != NULL)
                continue;
            open = open || hf_seal_open(&seal);
            if (open)
                original->real = NULL;
        }
    if (open)
        hf_seal_close(&seal);
}

bool hf_stub_is(enum hf_routed function, const void *address)
{
    for (size_t i = 0; i < HF_STUBS_PER_FUNCTION && address != NULL; i++)
        if (ORIGINAL(function, i)->stub == address)
            return true;
    return false;
}

void hf_stubs_ask_foreign(void)
{
    struct hf_seal seal;
    if (table.all.asking || !hf_seal_open(&seal))
        return;
    for (enum hf_routed function = 0; function < HF_ROUTED_COUNT; function++)
        for (size_t i = 0; i < HF_STUBS_PER_FUNCTION; i++)
            if (ORIGINAL(function, i)->real != NULL)
                fill(function, i, ORIGINAL(function, i)->real, &ORIGINAL(function, i)->definer,
                     true);
    table.all.asking = true;
    hf_seal_close(&seal);
}

void hf_stubs_offer_hooks(const struct hf_stub_hooks *hooks)
{
    struct hf_seal seal;
    hf_seal_open_to_start(&seal);
    table.all.hooks = hooks;
    hf_seal_close(&seal);
}

void *hf_stub_original(enum hf_routed function, const void *address)
{
    for (size_t i = 0; i < HF_STUBS_PER_FUNCTION && address != NULL; i++)
        if (ORIGINAL(function, i)->stub == address)
            return ORIGINAL(function, i)->real;
    return NULL;
}
