/*
 * Owns the stubs and the table of originals, which is sealed (seal.h). Entries are filled while it
 * is open, before the stub's address is published in a slot; calls read them without a lock. A stub
 * may be called at any stage, from any thread; those of mmap(2) and its kind from signal handlers
 * too.
 */
#include "stubs.h"

#include "dynlink.h"
#include "follow.h"
#include "foreign.h"
#include "homes.h"
#include "internal.h"
#include "seal.h"
#include "static_data.h"
#include "target.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* `call` is where the stub jumps: the original itself, or (once there are neighbours) the function
 * that asks them first and then calls `real`. */
struct original {
    _Atomic(void *) call;
    _Atomic(void *) real;
    struct hf_definer definer; /* of `real` */
};
struct originals {
    /* For the stubs of libc's own free and its kind; see below. */
    struct {
        uintptr_t plain_below; /* 0 while neighbours are asked */
        uintptr_t base;        /* the region's, minus one */
    } guard;
    struct original originals[HF_ROUTED_COUNT][HF_STUBS_PER_FUNCTION];
};
static union {
    struct originals all;
    char pages[HF_SEAL_SIZE(struct originals)];
} table HF_SEALED;

static _Atomic(bool) asking; /* written while the table is open */

#define EACH_STUB(DEFINE, ...) \
    DEFINE(0, __VA_ARGS__)     \
    DEFINE(1, __VA_ARGS__)     \
    DEFINE(2, __VA_ARGS__)     \
    DEFINE(3, __VA_ARGS__)     \
    DEFINE(4, __VA_ARGS__)     \
    DEFINE(5, __VA_ARGS__)     \
    DEFINE(6, __VA_ARGS__)     \
    DEFINE(7, __VA_ARGS__)
_Static_assert(HF_STUBS_PER_FUNCTION == 8, "EACH_STUB makes eight");

#define CALL(name, index, result, parameters, arguments) \
    ((result(*) parameters)atomic_load_explicit(         \
        &table.all.originals[HF_ROUTED_##name][index].call, memory_order_relaxed)) arguments
#define REAL(name, index, result, parameters, arguments) \
    ((result(*) parameters)atomic_load_explicit(         \
        &table.all.originals[HF_ROUTED_##name][index].real, memory_order_relaxed)) arguments

/* ---- functions that take a pointer ---- */

#define INSTEAD(name, index) \
    hf_neighbour_instead(ptr, &table.all.originals[HF_ROUTED_##name][index].definer)

#define STUB_VOID(index, name, parameters, arguments, mine)                 \
    static void stub_##name##_##index parameters                            \
    {                                                                       \
        if (HF_UNLIKELY(hf_owned(ptr)))                                     \
            mine;                                                           \
        else                                                                \
            CALL(name, index, void, parameters, arguments);                 \
    }                                                                       \
    static void ask_##name##_##index parameters                             \
    {                                                                       \
        const struct hf_neighbour *neighbour = INSTEAD(name, index);        \
        if (neighbour != NULL)                                              \
            hf_neighbour_free(neighbour, ptr, __builtin_return_address(0)); \
        else                                                                \
            REAL(name, index, void, parameters, arguments);                 \
    }

#define STUB(index, name, result, parameters, arguments, mine, theirs) \
    static result stub_##name##_##index parameters                     \
    {                                                                  \
        if (HF_UNLIKELY(hf_owned(ptr)))                                \
            return mine;                                               \
        return CALL(name, index, result, parameters, arguments);       \
    }                                                                  \
    static result ask_##name##_##index parameters                      \
    {                                                                  \
        const struct hf_neighbour *neighbour = INSTEAD(name, index);   \
        if (neighbour != NULL)                                         \
            return theirs;                                             \
        return REAL(name, index, result, parameters, arguments);       \
    }

/* The arguments after the pointer are a size, or a count and a size; SIZE_MAX is too much. */
static inline size_t bytes_of(size_t count, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes;
}
#define BYTES_OF_2(ptr, size)                  (size)
#define BYTES_OF_3(ptr, count, size)           bytes_of(count, size)
#define BYTES_PICK(ptr, one, other, name, ...) name
#define BYTES(...)                             BYTES_PICK(__VA_ARGS__, BYTES_OF_3, BYTES_OF_2, )(__VA_ARGS__)

static void *resize(const struct hf_neighbour *neighbour, void *ptr, size_t size,
                    const void *caller)
{
    if (size != SIZE_MAX)
        return hf_neighbour_realloc(neighbour, ptr, size, caller);
    errno = ENOMEM;
    return NULL;
}

#define HF_RELEASES(name, result, parameters, arguments, call) \
    EACH_STUB(STUB_VOID, name, parameters, arguments, call)
#define HF_DELETE(symbol, parameters, arguments, call) \
    EACH_STUB(STUB_VOID, symbol, parameters, arguments, call)
#define HF_RESIZES(name, result, parameters, arguments, call)  \
    EACH_STUB(STUB, name, result, parameters, arguments, call, \
              resize(neighbour, ptr, BYTES arguments, __builtin_return_address(0)))
#define HF_MEASURES(name, result, parameters, arguments, call) \
    EACH_STUB(STUB, name, result, parameters, arguments, call, \
              hf_neighbour_usable_size(neighbour, ptr, __builtin_return_address(0)))
#include "functions.def"

/* ---- libc's own free and realloc: stubs that look at what they pass on (static_data.h) ---- */

/*
 * Index 0 of these functions is reserved for libc's own. While no foreign allocators are known, a
 * non-NULL address below table.all.guard.plain_below is a block of libc's, or nobody's. One
 * comparison finds both exceptions, because NULL minus one is the largest number. Other addresses
 * are asked about in turn.
 */

#define GUARDED_VOID(name)                                                  \
    static __attribute__((noinline, cold)) void suspect_##name(void *ptr)   \
    {                                                                       \
        if (!hf_static_freed(ptr, "free", __builtin_return_address(0)))     \
            REAL(name, 0, void, (void *), (ptr));                           \
    }                                                                       \
    static void check_##name(void *ptr)                                     \
    {                                                                       \
        if (ptr == NULL)                                                    \
            return;                                                         \
        if (HF_UNLIKELY(hf_static_suspect(ptr)))                            \
            suspect_##name(ptr);                                            \
        else                                                                \
            REAL(name, 0, void, (void *), (ptr));                           \
    }                                                                       \
    static void ask_first_##name(void *ptr)                                 \
    {                                                                       \
        const struct hf_neighbour *neighbour = INSTEAD(name, 0);            \
        if (neighbour != NULL)                                              \
            hf_neighbour_free(neighbour, ptr, __builtin_return_address(0)); \
        else                                                                \
            check_##name(ptr);                                              \
    }                                                                       \
    static void guarded_##name(void *ptr)                                   \
    {                                                                       \
        uintptr_t before = (uintptr_t)ptr - 1;                              \
        if (HF_LIKELY(before < table.all.guard.plain_below)) {              \
            if (HF_UNLIKELY(hf_static_suspect(ptr)))                        \
                suspect_##name(ptr);                                        \
            else                                                            \
                REAL(name, 0, void, (void *), (ptr));                       \
        } else if (before - table.all.guard.base < hf_region.size) {        \
            hf_free(ptr);                                                   \
        } else {                                                            \
            CALL(name, 0, void, (void *), (ptr));                           \
        }                                                                   \
    }
#define GUARDED(name)                                                                   \
    static __attribute__((noinline, cold)) void *suspect_##name(void *ptr, size_t size) \
    {                                                                                   \
        void *moved;                                                                    \
        if (hf_static_resized(ptr, size, __builtin_return_address(0), &moved))          \
            return moved;                                                               \
        return REAL(name, 0, void *, (void *, size_t), (ptr, size));                    \
    }                                                                                   \
    static void *check_##name(void *ptr, size_t size)                                   \
    {                                                                                   \
        if (ptr != NULL && HF_UNLIKELY(hf_static_suspect(ptr)))                         \
            return suspect_##name(ptr, size);                                           \
        return REAL(name, 0, void *, (void *, size_t), (ptr, size));                    \
    }                                                                                   \
    static void *ask_first_##name(void *ptr, size_t size)                               \
    {                                                                                   \
        const struct hf_neighbour *neighbour = INSTEAD(name, 0);                        \
        if (neighbour != NULL)                                                          \
            return resize(neighbour, ptr, size, __builtin_return_address(0));           \
        return check_##name(ptr, size);                                                 \
    }                                                                                   \
    static void *guarded_##name(void *ptr, size_t size)                                 \
    {                                                                                   \
        if (HF_UNLIKELY(hf_owned(ptr)))                                                 \
            return hf_realloc(ptr, size);                                               \
        return CALL(name, 0, void *, (void *, size_t), (ptr, size));                    \
    }

#define EACH_GUARDED(VOID, SIZED) \
    VOID(free) VOID(cfree) VOID(__libc_free) SIZED(realloc) SIZED(__libc_realloc)
EACH_GUARDED(GUARDED_VOID, GUARDED)

/* The functions that stand at index 0 instead of the ordinary ones. */
#define GUARDED_ROW(name) \
    [HF_ROUTED_##name] = {(void *)guarded_##name, (void *)ask_first_##name, (void *)check_##name},
static const struct guarded {
    void *stub, *ask, *check; /* NULL where a function has none */
} guarded[HF_ROUTED_COUNT] = {EACH_GUARDED(GUARDED_ROW, GUARDED_ROW)};

/* ---- functions of the loader ---- */

/* The caller's address decides what the loader's functions mean (search paths, RTLD_NEXT), so these
 * either end in a jump to the original, which leaves it in place, or stand in for it in follow.c.
 */
#define STUB_DLOPEN(index, ...)                                                                  \
    static void *stub_dlopen_##index(const char *file, int mode)                                 \
    {                                                                                            \
        hf_homes_loading(true);                                                                  \
        void *handle = hf_follow_dlopen(                                                         \
            (hf_dlopen_function *)table.all.originals[HF_ROUTED_dlopen][index].real, file, mode, \
            __builtin_return_address(0));                                                        \
        hf_homes_loading(false);                                                                 \
        return handle;                                                                           \
    }
/* The namespace is the caller's wish, its search path is not needed for a name with a slash; what
 * comes by a bare name is routed at the next occasion. */
#define STUB_DLMOPEN(index, ...)                                                                \
    static void *stub_dlmopen_##index(Lmid_t namespace, const char *file, int mode)             \
    {                                                                                           \
        if (file == NULL || strchr(file, '/') == NULL)                                          \
            return CALL(dlmopen, index, void *, (Lmid_t, const char *, int),                    \
                        (namespace, file, mode));                                               \
        hf_homes_loading(true);                                                                 \
        void *handle =                                                                          \
            REAL(dlmopen, index, void *, (Lmid_t, const char *, int), (namespace, file, mode)); \
        hf_homes_loading(false);                                                                \
        return hf_follow_loaded(handle);                                                        \
    }
/* What only the caller's own scope has (RTLD_DEFAULT) is looked for there; if that fails too, the
 * jump gives the loader's own answer and message. */
#define LOOK_UP(name, index, handle, parameters, arguments, own_arguments)                        \
    if (HF_UNLIKELY(hf_follow_wants(handle, symbol))) {                                           \
        void *local, *found = hf_follow_own(handle, symbol, __builtin_return_address(0), &local); \
        if (found != NULL)                                                                        \
            return found;                                                                         \
        if (local != NULL)                                                                        \
            found = REAL(name, index, void *, parameters, own_arguments);                         \
        if (found == NULL)                                                                        \
            found = REAL(name, index, void *, parameters, arguments);                             \
        if (found == NULL && local == NULL) {                                                     \
            local = hf_follow_scope(handle, __builtin_return_address(0));                         \
            if (local != NULL)                                                                    \
                found = REAL(name, index, void *, parameters, own_arguments);                     \
        }                                                                                         \
        if (found != NULL)                                                                        \
            return hf_follow_symbol(symbol, found);                                               \
    }                                                                                             \
    return CALL(name, index, void *, parameters, arguments)
#define STUB_DLSYM(index, ...)                                                                    \
    static void *stub_dlsym_##index(void *handle, const char *symbol)                             \
    {                                                                                             \
        LOOK_UP(dlsym, index, handle, (void *, const char *), (handle, symbol), (local, symbol)); \
    }
#define STUB_DLVSYM(index, ...)                                                             \
    static void *stub_dlvsym_##index(void *handle, const char *symbol, const char *version) \
    {                                                                                       \
        LOOK_UP(dlvsym, index, handle, (void *, const char *, const char *),                \
                (handle, symbol, version), (local, symbol, version));                       \
    }
EACH_STUB(STUB_DLOPEN, )
EACH_STUB(STUB_DLMOPEN, )
EACH_STUB(STUB_DLSYM, )
EACH_STUB(STUB_DLVSYM, )

/* ---- functions that map memory ---- */

/* What maps is told after the call, what unmaps before it: see ranges.h. Whose the call is says the
 * return address. An object's function that ends in a jump to mmap(2) counts as its caller's; one
 * that allocates does not end so, because it has to look at what it was given. */
#define STUB_MMAP(index, name, ...)                                                           \
    static void *stub_##name##_##index(void *address, size_t size, int protection, int flags, \
                                       int file, off_t offset)                                \
    {                                                                                         \
        void *at = REAL(name, index, void *, (void *, size_t, int, int, int, off_t),          \
                        (address, size, protection, flags, file, offset));                    \
        return hf_homes_mapped(at, size, flags, __builtin_return_address(0));                 \
    }
#define STUB_MUNMAP(index, ...)                                                     \
    static int stub_munmap_##index(void *address, size_t size)                      \
    {                                                                               \
        if (HF_LIKELY(!hf_homes_know(address, size)))                               \
            return CALL(munmap, index, int, (void *, size_t), (address, size));     \
        unsigned number = hf_homes_unmapping(address, size);                        \
        int result = REAL(munmap, index, int, (void *, size_t), (address, size));   \
        return result == 0 ? 0 : (int)hf_homes_kept(address, size, number, result); \
    }
#define STUB_MREMAP(index, ...)                                                              \
    static void *stub_mremap_##index(void *address, size_t size, size_t new_size, int flags, \
                                     void *new_address)                                      \
    {                                                                                        \
        if (HF_LIKELY(!hf_homes_know(address, size)))                                        \
            return CALL(mremap, index, void *, (void *, size_t, size_t, int, void *),        \
                        (address, size, new_size, flags, new_address));                      \
        struct hf_homes_move move = hf_homes_moving(address, size, new_size, flags);         \
        void *at = REAL(mremap, index, void *, (void *, size_t, size_t, int, void *),        \
                        (address, size, new_size, flags, new_address));                      \
        return hf_homes_moved(&move, at);                                                    \
    }
#define STUB_SBRK(index, name, ...)                                            \
    static void *stub_##name##_##index(intptr_t increment)                     \
    {                                                                          \
        void *before = REAL(name, index, void *, (intptr_t), (increment));     \
        return hf_homes_break(before, increment, __builtin_return_address(0)); \
    }
#define STUB_BRK(index, ...)                               \
    static int stub_brk_##index(void *address)             \
    {                                                      \
        hf_homes_break_is_shared();                        \
        return CALL(brk, index, int, (void *), (address)); \
    }
/* Everything but memory's calls ends in a jump that touches nothing: a call may return twice, and
 * where the caller passed fewer arguments than six, other variables of its lie in their place,
 * which must not be written even with what they hold. So a last argument that the ABI puts on the
 * stack (x86-64's seventh) is not the stub's to know: it stays where it is. */
#define SYSCALL_PARAMETERS (long, long, long, long, long, long, long)
#if defined(__x86_64__)
#    define SYSCALL_KNOWN(number, a, b, c, d, e, f) (number, a, b, c, d, e)
#    define SYSCALL_KNOWN_PARAMETERS                (long, long, long, long, long, long)
#else
#    define SYSCALL_KNOWN(number, a, b, c, d, e, f) (number, a, b, c, d, e, f)
#    define SYSCALL_KNOWN_PARAMETERS                SYSCALL_PARAMETERS
#endif
#define STUB_SYSCALL(index, ...)                                                                  \
    __attribute__((noinline)) static long memory_syscall_##index(long number, long a, long b,     \
                                                                 long c, long d, long e, long f)  \
    {                                                                                             \
        if (number == SYS_mmap) {                                                                 \
            void *at = (void *)REAL(syscall, index, long, SYSCALL_PARAMETERS,                     \
                                    (number, a, b, c, d, e, f));                                  \
            return (long)hf_homes_mapped(at, (size_t)b, (int)d, __builtin_return_address(0));     \
        }                                                                                         \
        if (number == SYS_munmap) {                                                               \
            unsigned home = hf_homes_unmapping((void *)a, (size_t)b);                             \
            long result = REAL(syscall, index, long, (long, long, long), (number, a, b));         \
            return result == 0 ? 0 : hf_homes_kept((void *)a, (size_t)b, home, result);           \
        }                                                                                         \
        if (number == SYS_mremap) {                                                               \
            struct hf_homes_move move = hf_homes_moving((void *)a, (size_t)b, (size_t)c, (int)d); \
            void *at = (void *)REAL(syscall, index, long, (long, long, long, long, long, long),   \
                                    (number, a, b, c, d, e));                                     \
            return (long)hf_homes_moved(&move, at);                                               \
        }                                                                                         \
        hf_homes_break_is_shared();                                                               \
        return REAL(syscall, index, long, (long, long), (number, a));                             \
    }                                                                                             \
    static long stub_syscall_##index SYSCALL_KNOWN(long number, long a, long b, long c, long d,   \
                                                   long e, long f)                                \
    {                                                                                             \
        if (HF_UNLIKELY(number == SYS_mmap || number == SYS_munmap || number == SYS_mremap ||     \
                        number == SYS_brk)) {                                                     \
            void *memory = (void *)memory_syscall_##index;                                        \
            __asm__("" : "+r"(memory)); /* GCC sees the other prototype otherwise */              \
            return ((long(*) SYSCALL_KNOWN_PARAMETERS)memory)SYSCALL_KNOWN(number, a, b, c, d, e, \
                                                                           f);                    \
        }                                                                                         \
        return CALL(syscall, index, long, SYSCALL_KNOWN_PARAMETERS,                               \
                    SYSCALL_KNOWN(number, a, b, c, d, e, f));                                     \
    }
EACH_STUB(STUB_MMAP, mmap)
EACH_STUB(STUB_MMAP, mmap64)
EACH_STUB(STUB_MUNMAP, )
EACH_STUB(STUB_MREMAP, )
EACH_STUB(STUB_SBRK, sbrk)
EACH_STUB(STUB_SBRK, __sbrk)
EACH_STUB(STUB_BRK, )
EACH_STUB(STUB_SYSCALL, )

/* ---- the tables ---- */

struct row {
    const char *name;
    bool is_operator;
    void *stubs[HF_STUBS_PER_FUNCTION];
    void *asks[HF_STUBS_PER_FUNCTION]; /* NULL where neighbours have no say */
};

#define STUB_ADDRESS(index, name) (void *)stub_##name##_##index,
#define ASK_ADDRESS(index, name)  (void *)ask_##name##_##index,
#define ROW(symbol, is_operator)                               \
    [HF_ROUTED_##symbol] = {#symbol,                           \
                            is_operator,                       \
                            {EACH_STUB(STUB_ADDRESS, symbol)}, \
                            {EACH_STUB(ASK_ADDRESS, symbol)}},
#define PLAIN_ROW(symbol) \
    [HF_ROUTED_##symbol] = {#symbol, false, {EACH_STUB(STUB_ADDRESS, symbol)}, {NULL}},

static const struct row rows[HF_ROUTED_COUNT] = {
#define HF_RELEASES(name, result, parameters, arguments, call) ROW(name, false)
#define HF_RESIZES(name, result, parameters, arguments, call)  ROW(name, false)
#define HF_MEASURES(name, result, parameters, arguments, call) ROW(name, false)
#define HF_DELETE(symbol, parameters, arguments, call)         ROW(symbol, true)
#include "functions.def"
    PLAIN_ROW(dlopen) PLAIN_ROW(dlmopen) PLAIN_ROW(dlsym) PLAIN_ROW(dlvsym)
#define HF_MAPS(name) PLAIN_ROW(name)
#include "functions.def"
        [HF_ROUTED_madvise] = {"madvise", false, {NULL}, {NULL}},
};

const char *hf_routed_name(enum hf_routed function)
{
    return rows[function].name;
}

bool hf_routed_is_operator(enum hf_routed function)
{
    return rows[function].is_operator;
}

bool hf_routed_is_loader(enum hf_routed function)
{
    return function >= HF_ROUTED_dlopen && function <= HF_ROUTED_dlvsym;
}

bool hf_routed_is_mapping(enum hf_routed function)
{
    return function > HF_ROUTED_dlvsym && function <= HF_ROUTED_madvise;
}

/* Objects have thousands of names, and nearly all are none of ours: a bit for each of the first
 * three characters that a routed name can have sends most of them away. Filled by the constructor.
 */
static uint64_t prefixes[16];

static unsigned prefix_of(const char *name)
{
    /* No routed name is shorter than three characters, no name in an object is shorter than none.
     */
    if (name[0] == '\0' || name[1] == '\0')
        return 0;
    return ((unsigned char)name[0] * 5U + (unsigned char)name[1] * 67U +
            (unsigned char)name[2] * 257U) %
           (sizeof prefixes * 8);
}

int hf_routed_by_name(const char *name)
{
    unsigned prefix = prefix_of(name);
    if ((prefixes[prefix / 64] >> prefix % 64 & 1) == 0)
        return -1;
    for (int i = 0; i < HF_ROUTED_COUNT; i++)
        if (rows[i].name[0] == name[0] && strcmp(rows[i].name, name) == 0)
            return i;
    return -1;
}

static const char *name_of(int function)
{
    return rows[function].name;
}

const struct hf_function_names hf_routed_names = {HF_ROUTED_COUNT, hf_routed_by_name, name_of};
_Static_assert(HF_ROUTED_COUNT <= HF_FUNCTION_NAMES_MAX, "slots.h has room for every name");

static bool is_guarded(enum hf_routed function, size_t index)
{
    return index == 0 && guarded[function].stub != NULL;
}

static void *stub_at(enum hf_routed function, size_t index)
{
    return is_guarded(function, index) ? guarded[function].stub : rows[function].stubs[index];
}

/* `real` comes last: what has one is complete, also in a child that was forked meanwhile. */
static void fill(enum hf_routed function, size_t index, void *real,
                 const struct hf_definer *definer, bool ask_first)
{
    struct original *original = &table.all.originals[function][index];
    const bool looks = is_guarded(function, index);
    void *ask = looks ? guarded[function].ask : rows[function].asks[index];
    void *plain = looks ? guarded[function].check : real;
    if (looks) {
        table.all.guard.base = hf_region.base - 1;
        __atomic_store_n(&table.all.guard.plain_below, ask_first ? 0 : table.all.guard.base,
                         __ATOMIC_SEQ_CST);
    }
    original->definer = *definer;
    atomic_store(&original->call, ask_first && ask != NULL ? ask : plain);
    atomic_store(&original->real, real);
}

/* The place of an original among the function's; HF_STUBS_PER_FUNCTION when it has none. `empty`
 * gets the first free place that it may take then: index 0 of a guarded function is libc's alone.
 */
static size_t place_of(enum hf_routed function, const void *original, size_t *empty)
{
    *empty = HF_STUBS_PER_FUNCTION;
    for (size_t i = 0; i < HF_STUBS_PER_FUNCTION; i++)
        if (table.all.originals[function][i].real == original)
            return i;
    for (size_t i = HF_STUBS_PER_FUNCTION; i-- > 0;)
        if (table.all.originals[function][i].real == NULL &&
            (!is_guarded(function, i) || hf_static_guards(rows[function].name, original)))
            *empty = i;
    return HF_STUBS_PER_FUNCTION;
}

void hf_stubs_for(struct hf_stub_wish *wishes, size_t count)
{
    struct hf_seal seal;
    struct hf_definer definer = {.map = NULL};
    size_t at, empty;
    bool missing = false;
    /* Not while the table is open: before glibc 2.35, looking for a definer takes the loader's
     * lock. */
    for (size_t i = 0; i < count; i++) {
        const enum hf_routed function = wishes[i].function;
        at = function == HF_ROUTED_madvise ? HF_STUBS_PER_FUNCTION
                                           : place_of(function, wishes[i].original, &empty);
        wishes[i].stub = at != HF_STUBS_PER_FUNCTION ? stub_at(function, at) : NULL;
        if (wishes[i].stub != NULL || function == HF_ROUTED_madvise)
            continue;
        /* Most wishes of one call are for functions of one object. */
        const struct link_map *map = hf_dynlink_find(wishes[i].original);
        if (!missing || definer.map != map)
            definer = hf_definer_of(wishes[i].original);
        wishes[i].definer = definer;
        missing = true;
    }
    if (!missing || !hf_seal_open(&seal))
        return;
    for (size_t i = 0; i < count; i++) {
        const enum hf_routed function = wishes[i].function;
        if (wishes[i].stub != NULL || function == HF_ROUTED_madvise)
            continue;
        at = place_of(function, wishes[i].original, &empty); /* another thread may have been here */
        if (at == HF_STUBS_PER_FUNCTION && empty != at) {
            fill(function, empty, wishes[i].original, &wishes[i].definer, asking);
            at = empty;
        }
        if (at != HF_STUBS_PER_FUNCTION)
            wishes[i].stub = stub_at(function, at);
    }
    hf_seal_close(&seal);
}

void *hf_stub_for(enum hf_routed function, void *original)
{
    struct hf_stub_wish wish = {.function = function, .original = original};
    if (original == NULL)
        return NULL;
    hf_stubs_for(&wish, 1);
    return wish.stub;
}

/* Whoever still calls such a stub with a foreign pointer jumped to nowhere before, too. */
void hf_stubs_forget(void)
{
    struct hf_seal seal;
    bool open = false;
    for (enum hf_routed function = 0; function < HF_ROUTED_COUNT; function++)
        for (size_t i = 0; i < HF_STUBS_PER_FUNCTION; i++) {
            struct original *original = &table.all.originals[function][i];
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
        if (stub_at(function, i) == address)
            return true;
    return false;
}

void hf_stubs_ask_neighbours(void)
{
    struct hf_seal seal;
    if (asking || !hf_seal_open(&seal))
        return;
    for (enum hf_routed function = 0; function < HF_ROUTED_COUNT; function++)
        for (size_t i = 0; i < HF_STUBS_PER_FUNCTION; i++)
            if (table.all.originals[function][i].real != NULL)
                fill(function, i, table.all.originals[function][i].real,
                     &table.all.originals[function][i].definer, true);
    asking = true;
    hf_seal_close(&seal);
}

/* Before the first pass (102). */
__attribute__((constructor(101))) static void construct(void)
{
    for (int i = 0; i < HF_ROUTED_COUNT; i++) {
        unsigned prefix = prefix_of(rows[i].name);
        prefixes[prefix / 64] |= (uint64_t)1 << prefix % 64;
    }
}

void *hf_stub_original(enum hf_routed function, const void *address)
{
    for (size_t i = 0; i < HF_STUBS_PER_FUNCTION && address != NULL; i++)
        if (stub_at(function, i) == address)
            return table.all.originals[function][i].real;
    return NULL;
}
