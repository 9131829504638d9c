/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns pymalloc's previous arena allocator. CPython itself requests and returns arenas, in an
 * attached thread. The functions of the hosted allocator may be called by any thread at any time,
 * also after the interpreter has ended.
 *
 * Constraint: only an attached thread may call CPython's functions. The size of an arena determines
 * its layout (CPython 3.9 to 3.14): an arena of 1 MiB has pools of 16 KiB, one of 256 KiB has pools
 * of 4 KiB. Arenas are lent at multiples of their size, so the pools lie at multiples of theirs,
 * starting with the arena's first byte.
 *
 * Since 3.12 each interpreter may have a pymalloc of its own, and CPython cannot be asked which
 * interpreters share one. So a block is passed to the current interpreter first. A pymalloc that
 * does not know an address passes it on to the RAW domain, whose hook sends it back here, where
 * hf_foreign_handed_on says that the block has been passed on already. Then the interpreter that
 * its arena was handed out to (arena_owners.h) owns it: the block is posted there, and runs as soon
 * as a thread is attached to that. After that interpreter has ended, the block is leaked and
 * counted. Before 3.12 there is only one pymalloc.
 */
#include "loader/host/pymalloc.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/fatal.h"
#include "alloc/base/seal.h"
#include "alloc/heap/internal.h"
#include "alloc/owner/foreign.h"
#include "alloc/owner/hosted.h"
#include "alloc/trace/watch.h"
#include "loader/foreign/asking.h"
#include "loader/host/arena_owners.h"
#include "loader/host/arenas.h"
#include "loader/host/interpreter_heaps.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#define POOL_HEADER  ((sizeof(struct hf_py_pool) + 15) & ~(size_t)15)
#define CLASSES      32 /* multiples of 16 bytes up to 512 */
#define DEBUG_PREFIX (2 * sizeof(size_t))
#define DEBUG_BYTE   0xfd

/* The allocators that homefree replaced: CPython's own, or another hook's. */
struct previous {
    struct hf_py_arenas arenas;
    const struct hf_py_allocator *_Atomic objects;
    /* For telling interpreters apart; NULL if CPython is too old for that. */
    const struct hf_cpython_interpreters *_Atomic interpreters;
    hf_pymalloc_post *post;
};
static HF_SEALED_UNION(struct previous, previous) table HF_SEALED;
static atomic_bool lending;
static atomic_size_t arena_size;
static atomic_size_t leaked;

enum finding {
    BLOCK,    /* the pointer that the block's owner was given */
    PREFIXED, /* the first byte of a block for which debug hooks returned a later address */
    INTERIOR, /* any other address in a block */
    NOTHING   /* not in a block that is in use */
};

struct place {
    const struct hf_py_pool *pool;
    const char *first; /* the block's first byte, as pymalloc sees it */
    size_t size;       /* bytes from `first` on */
    size_t index;
    const char *given; /* the pointer that the block's owner was given */
    size_t usable;     /* bytes from `given` on that the owner may use */
    char letter;       /* letter of the domain if the debug hooks recorded one, else NUL */
};

/* ---- looking up an address ---- */

static bool debug_hooks(void)
{
    struct hf_py_allocator bottom;
    bool debug = false;
    const struct hf_cpython *cpython = hf_cpython();
    if (cpython != NULL)
        (void)hf_cpython_bottom(cpython, HF_PY_OBJECT, &bottom, &debug);
    return debug;
}

/* Reads the debug hooks' prefix: the requested size (big-endian), the domain's letter, and guard
 * bytes. */
static bool read_prefix(struct place *place)
{
    static const unsigned char warning[] = {DEBUG_BYTE, DEBUG_BYTE, DEBUG_BYTE, DEBUG_BYTE,
                                            DEBUG_BYTE, DEBUG_BYTE, DEBUG_BYTE};
    const unsigned char *at = (const unsigned char *)place->first;
    uint64_t asked = 0;
    for (size_t i = 0; i < sizeof asked; i++)
        asked = asked << 8 | at[i];
    char letter = (char)at[8];
    if ((letter != 'm' && letter != 'o') || memcmp(at + 9, warning, sizeof warning) != 0 ||
        asked > place->size - DEBUG_PREFIX)
        return false;
    place->letter = letter;
    place->given = place->first + DEBUG_PREFIX;
    place->usable = asked;
    return true;
}

/* Looks up an address. Another thread may be changing the pool meanwhile. The result is consistent
 * for a block that the caller owns, because such a block's pool cannot change its size class. */
static enum finding find(const void *ptr, struct place *out)
{
    size_t arena = atomic_load_explicit(&arena_size, memory_order_relaxed);
    size_t pool_size = hf_py_pool_size(arena);
    size_t offset = (uintptr_t)ptr & (pool_size - 1);
    const volatile struct hf_py_pool *seen =
        (const volatile struct hf_py_pool *)((const char *)ptr - offset);
    uint32_t size_class = seen->size_class, next = seen->next_offset, last = seen->last_offset;
    size_t size = ((size_t)size_class + 1) * 16;
    if (seen->count == 0 || size_class >= CLASSES || offset < POOL_HEADER ||
        last != pool_size - size)
        return NOTHING;
    size_t index = (offset - POOL_HEADER) / size;
    size_t start = POOL_HEADER + index * size;
    if (start > last || (start >= next && next <= last))
        return NOTHING;
    const char *first = (const char *)ptr - (offset - start);
    *out = (struct place){.pool = (const struct hf_py_pool *)((const char *)ptr - offset),
                          .first = first,
                          .size = size,
                          .index = index,
                          .given = first,
                          .usable = size};
    if (debug_hooks() && size > DEBUG_PREFIX && read_prefix(out) && ptr == first)
        return PREFIXED;
    return ptr == out->given ? BLOCK : INTERIOR;
}

/* Whether the block is on its pool's free list. Only for an attached thread. */
static bool is_free(const struct place *place)
{
    const uintptr_t *block = place->pool->free;
    const char *pool = (const char *)place->pool;
    for (size_t steps = 0; block != NULL && steps < 16384 / 16; steps++) {
        if ((const char *)block == place->first)
            return true;
        if ((uintptr_t)((const char *)block - pool) >= 16384)
            return false; /* the list was overwritten, which is not for this code to diagnose */
        block = (const uintptr_t *)*block;
    }
    return false;
}

/* ---- fatal errors ---- */

static _Noreturn void die(const char *call, const void *ptr, const void *caller,
                          const struct place *place, const char *fact, const char *remedy)
{
    struct hf_text text;
    hf_text_begin_fatal(&text, call, ptr);
    hf_text_say(&text, "the pointer %s", fact);
    if (place != NULL)
        hf_text_say(&text, " (%zu bytes at %p)", (size_t)place->size, (const void *)place->first);
    hf_text_add_caller(&text, caller);
    hf_text_say(&text, "; going on would damage the interpreter's memory; %s", remedy);
    hf_fatal(&text);
}

static const char *const without_gil =
    "is a block of CPython's pymalloc, and the calling thread does not hold the interpreter's GIL";
static const char *const take_gil =
    "release it with PyMem_Free or PyObject_Free while the thread is attached "
    "(PyGILState_Ensure), or allocate what other threads free with PyMem_RawMalloc";

static int64_t interpreter_of(const void *ptr)
{
    const size_t arena = atomic_load_explicit(&arena_size, memory_order_relaxed);
    return arena != 0 && hf_owned(ptr)
               ? hf_arena_owners_find((const void *)((uintptr_t)ptr & -arena))
               : HF_NO_INTERPRETER;
}

/* Returns the block at `ptr`, one of no bytes if it went with its interpreter, or ends the
 * process. */
static struct place check(const char *call, const void *ptr, const void *caller)
{
    struct place place;
    switch (find(ptr, &place)) {
    case BLOCK:
        return place;
    case PREFIXED:
        /* In "full" mode this allocator is below the debug hooks, and is passed the pointers that
         * they pass on. */
        if (table.previous.objects != NULL) {
            place.given = place.first;
            place.usable = place.size;
            return place;
        }
        /* fall through */
    case INTERIOR:
        die(call, ptr, caller, &place,
            "is inside a block of CPython's pymalloc, not at the first "
            "byte that was given out",
            "release the pointer that the allocation returned");
    case NOTHING:
        if (interpreter_of(ptr) == HF_ENDED_INTERPRETER) {
            atomic_fetch_add_explicit(&leaked, 1, memory_order_relaxed);
            return (struct place){0};
        }
        break;
    }
    die(call, ptr, caller, NULL,
        "is in memory of CPython's pymalloc, but in no block that is in "
        "use: it was never allocated, or freed already",
        "run with PYTHONMALLOC=debug to see who freed it first");
}

/* ---- interpreters ---- */

/* The interpreter that the calling thread is attached to. */
static int64_t current_interpreter(void)
{
    const struct hf_cpython_interpreters *py = table.previous.interpreters;
    struct hf_py_thread *thread = py != NULL ? py->cpython->current_thread() : NULL;
    return thread != NULL ? py->interpreter_id(py->interpreter_of(thread)) : HF_NO_INTERPRETER;
}

/* Whether CPython has this interpreter. The calling thread is attached to another one. */
static bool is_alive(int64_t interpreter)
{
    const struct hf_cpython_interpreters *py = table.previous.interpreters;
    struct hf_py_interpreter *one = py->interpreter_head();
    while (one != NULL && py->interpreter_id(one) != interpreter)
        one = py->interpreter_next(one);
    return one != NULL;
}

static void free_at_home(void *ptr)
{
    hf_free(ptr);
}

/* Sends a block to the interpreter that owns it, which is another one than the calling thread's.
 * The block is freed later, or never: the caller must not touch it. */
static void dispatch(const char *call, void *ptr, const void *caller, const struct place *place)
{
    const int64_t home = interpreter_of(place->first);
    const char *fact = "is a block of CPython's pymalloc, but of another interpreter than the one "
                       "that the calling thread is attached to";
    if (home != HF_NO_INTERPRETER) {
        const int error =
            table.previous.post != NULL ? table.previous.post(home, free_at_home, ptr) : -ESHUTDOWN;
        if (error == 0)
            return;
        if (error != -ESHUTDOWN || !is_alive(home)) {
            atomic_fetch_add_explicit(&leaked, 1, memory_order_relaxed);
            return;
        }
    }
    die(call, ptr, caller, place, fact,
        "release it in the interpreter that allocated it, or allocate what crosses interpreters "
        "with PyMem_RawMalloc");
}

/* Whether CPython may be called for the block now. Returns false once the interpreter is gone, when
 * nothing allocates there any more, and for a block that was sent home. In every other case the
 * process ends. */
static bool may_call(const char *call, void *ptr, const void *caller, const struct place *place)
{
    const struct hf_cpython *cpython = hf_cpython();
    /* Before 3.12.4, CPython frees at its end what interpreters have allocated that ended before
     * (python/cpython#119213). Nobody uses that any more. */
    if (hf_foreign_handed_on == place->first) {
        if (cpython->is_initialized())
            dispatch(call, ptr, caller, place);
        else
            atomic_fetch_add_explicit(&leaked, 1, memory_order_relaxed);
        return false;
    }
    if (!hf_cpython_attached(cpython)) {
        if (!cpython->is_initialized())
            return false;
        die(call, ptr, caller, place, without_gil, take_gil);
    }
    if (is_free(place))
        die(call, ptr, caller, place,
            "is a block of CPython's pymalloc that is free already: "
            "double free",
            "run with PYTHONMALLOC=debug to see who freed it first");
    return true;
}

/* ---- the hosted allocator ---- */

static void hosted_free(void *ptr, const void *caller)
{
    int saved_errno = errno;
    struct place place = check("free", ptr, caller);
    if (place.size > 0 && may_call("free", ptr, caller, &place)) {
        const struct hf_cpython *cpython = hf_cpython();
        const struct hf_py_allocator *objects = table.previous.objects;
        const void *outer = hf_foreign_handed_on;
        hf_foreign_handed_on = place.first;
        if (objects != NULL && ptr == place.first)
            objects->free(objects->ctx, ptr);
        else if (place.letter == 'm')
            cpython->mem_free(ptr);
        else
            cpython->object_free(ptr);
        hf_foreign_handed_on = outer;
    }
    errno = saved_errno;
}

static void *hosted_realloc(void *ptr, size_t size, const void *caller)
{
    if (size == 0) {
        hosted_free(ptr, caller);
        return NULL;
    }
    struct place place = check("realloc", ptr, caller);
    void *copy = NULL;
    if (place.size == 0)
        return hf_calloc(1, size);
    if (hf_foreign_handed_on == place.first || !hf_cpython()->is_initialized()) {
        copy = hf_malloc(size);
        if (copy == NULL)
            return NULL;
        memcpy(copy, ptr, size < place.usable ? size : place.usable);
    }
    if (!may_call("realloc", ptr, caller, &place))
        return copy;
    hf_free(copy);
    const struct hf_cpython *cpython = hf_cpython();
    const struct hf_py_allocator *objects = table.previous.objects;
    const void *outer = hf_foreign_handed_on;
    void *resized;
    hf_foreign_handed_on = place.first;
    if (objects != NULL && ptr == place.first)
        resized = objects->realloc(objects->ctx, ptr, size);
    else if (place.letter == 'm')
        resized = cpython->mem_realloc(ptr, size);
    else
        resized = cpython->object_realloc(ptr, size);
    hf_foreign_handed_on = outer;
    if (resized == NULL)
        errno = ENOMEM;
    return resized;
}

static size_t hosted_usable_size(const void *ptr, const void *caller)
{
    return check("malloc_usable_size", ptr, caller).usable;
}

static void hosted_describe(const void *ptr, struct hf_owner *owner)
{
    struct place place;
    owner->kind = HF_OWNER_PYMALLOC;
    owner->allocator = "pymalloc";
    owner->object = hf_dynlink_name(hf_cpython()->map);
    const int64_t interpreter = interpreter_of(ptr);
    owner->interpreter = interpreter != HF_ENDED_INTERPRETER ? interpreter : HF_NO_INTERPRETER;
    if (find(ptr, &place) == NOTHING || (hf_cpython_attached(hf_cpython()) && is_free(&place)))
        return;
    owner->block = place.given;
    owner->block_size = place.usable;
    if (place.letter != '\0')
        owner->domain = place.letter == 'm' ? "mem" : "object";
}

static const struct hf_hosted hosted = {hosted_free,     hosted_realloc, hosted_usable_size,
                                        hosted_describe, false,          NULL};

/* Registers pymalloc for its arenas outside the region as well. The table of foreign pages records
 * their pages one by one, so no allocator needs to be queried. */
static bool become_foreign(const struct hf_cpython *cpython)
{
    const struct hf_foreign_allocator allocator = {
        .name = "pymalloc",
        .object = hf_dynlink_name(cpython->map),
        .kind = HF_QUESTION_NONE,
        .form = HF_FREE_HOSTED,
        .hosted = &hosted,
    };
    return hf_arenas_publish(&allocator);
}

/* ---- arenas ---- */

/* Since 3.11 CPython asks this allocator for the stacks of its frames, too: 16 KiB or more for each
 * thread state. Those are plain blocks: mapping and unmapping one takes longer than many a call. */
#define ARENA_LEAST ((size_t)1 << 18)

static void *arena_alloc(void *ctx, size_t size)
{
    (void)ctx;
    if (size < ARENA_LEAST && atomic_load_explicit(&lending, memory_order_relaxed)) {
        void *stack = HF_FOR_CALLER(hf_malloc(size), size);
        if (stack != NULL)
            return stack;
    }
    if (atomic_load_explicit(&lending, memory_order_relaxed) &&
        (size == (size_t)1 << 20 || size == (size_t)1 << 18)) {
        atomic_store_explicit(&arena_size, size, memory_order_relaxed);
        const int64_t interpreter = current_interpreter();
        if (!hf_interpreter_heap_arena(interpreter, size))
            return NULL;
        void *arena = hf_arena_owners_reuse(interpreter);
        if (arena != NULL)
            return arena;
        arena = hf_hosted_map(&hosted, size, size, PROT_READ | PROT_WRITE);
        if (arena != NULL) {
            if (interpreter != HF_NO_INTERPRETER)
                hf_arena_owners_add(arena, interpreter);
            return arena;
        }
        hf_interpreter_heap_arena_ends(interpreter, size);
    }
    void *arena = table.previous.arenas.alloc(table.previous.arenas.ctx, size);
    if (arena != NULL && size >= ARENA_LEAST && hf_arenas_add(arena, size) &&
        HF_UNLIKELY(arena_size == 0))
        atomic_store_explicit(&arena_size, size, memory_order_relaxed);
    return arena;
}

static void arena_free(void *ctx, void *ptr, size_t size)
{
    (void)ctx;
    if (hf_owned(ptr)) {
        if (size < ARENA_LEAST) {
            hf_free(ptr);
            return;
        }
        hf_interpreter_heap_arena_ends(hf_arena_owners_find(ptr), size);
        /* Before the address can be an arena of somebody else. */
        hf_arena_owners_remove(ptr);
        hf_hosted_unmap(ptr, size);
        return;
    }
    hf_arenas_remove(ptr, size);
    table.previous.arenas.free(table.previous.arenas.ctx, ptr, size);
}

/* An interpreter with its own GIL may read the structure meanwhile and see old and new functions
 * mixed. The function that accepts any arena is therefore written first, and the context stays the
 * old one's. */
static void hook_arenas(const struct hf_cpython *cpython, struct hf_py_arenas current)
{
    struct hf_seal seal;
    if (!hf_seal_open(&seal))
        return;
    table.previous.arenas = current;
    hf_seal_close(&seal);
    current.free = arena_free;
    cpython->set_arenas(&current);
    current.alloc = arena_alloc;
    cpython->set_arenas(&current);
}

/* Returns whether this is the first time. */
static bool install_hooks(const struct hf_cpython *cpython)
{
    struct hf_py_arenas current;
    cpython->get_arenas(&current);
    if (current.alloc == arena_alloc)
        return false;
    hook_arenas(cpython, current);
    return true;
}

void hf_pymalloc_record(const struct hf_cpython *cpython)
{
    if (become_foreign(cpython) && install_hooks(cpython))
        hf_asking_begin();
}

bool hf_pymalloc_give_way(const struct hf_cpython *cpython)
{
    struct hf_py_arenas arenas;
    struct hf_py_allocator raw;
    cpython->get_arenas(&arenas);
    cpython->get_allocator(HF_PY_RAW, &raw);
    if (arenas.alloc != arena_alloc || atomic_load(&arena_size) != 0 || atomic_load(&lending) ||
        hf_dynlink_find((const void *)raw.malloc) != cpython->map)
        return false;
    arenas = table.previous.arenas;
    cpython->set_arenas(&arenas);
    return true;
}

/* Looked up here, because an arena may be requested while the caller holds locks of others. */
static void learn_interpreters(const struct hf_cpython *cpython)
{
    struct hf_seal seal;
    if (cpython->version < 0x30c || table.previous.interpreters != NULL)
        return;
    const struct hf_cpython_interpreters *py = hf_cpython_interpreters();
    if (py == NULL || !hf_seal_open(&seal))
        return;
    table.previous.interpreters = py;
    hf_seal_close(&seal);
}

void hf_pymalloc_install(const struct hf_cpython *cpython)
{
    learn_interpreters(cpython);
    atomic_store(&lending, true);
    bool first = install_hooks(cpython);
    /* Since 3.12 each interpreter may have arenas of its own. */
    if (!cpython->is_initialized() || (!first && cpython->version < 0x30c))
        return;
    size_t size =
        become_foreign(cpython) ? hf_arenas_learn(cpython, current_interpreter() == 0) : 0;
    if (size != 0) {
        atomic_store_explicit(&arena_size, size, memory_order_relaxed);
        hf_asking_begin();
    }
}

void hf_pymalloc_uninstall(void)
{
    atomic_store(&lending, false);
}

void hf_pymalloc_set_objects(const struct hf_py_allocator *previous)
{
    struct hf_seal seal;
    if (!hf_seal_open(&seal))
        return;
    table.previous.objects = previous;
    hf_seal_close(&seal);
}

/* ---- ended interpreters ---- */

size_t hf_pymalloc_arena_size(void)
{
    return atomic_load_explicit(&arena_size, memory_order_relaxed);
}

size_t hf_pymalloc_block(const void *ptr, uintptr_t *first)
{
    struct place place;
    if (find(ptr, &place) == NOTHING)
        return 0;
    *first = (uintptr_t)place.first;
    return place.size;
}

/* It stays lent, so that a block that somebody frees too late is still known for one of pymalloc's,
 * and is the next arena of whoever asks. */
void hf_pymalloc_arena_free(void *arena)
{
    if (madvise(arena, hf_pymalloc_arena_size(), MADV_DONTNEED) == 0)
        hf_arena_owners_end(arena);
}

/* Blocks in use in a pool, and their size. A pool that was never used has a head of zeros. */
static size_t blocks_in(const char *at, size_t pool_size, size_t *size)
{
    const volatile struct hf_py_pool *pool = (const volatile void *)at;
    const uint32_t size_class = pool->size_class, count = pool->count;
    *size = ((size_t)size_class + 1) * 16;
    return size_class < CLASSES && pool->last_offset == pool_size - *size &&
                   count <= pool_size / *size
               ? count
               : 0;
}

size_t hf_pymalloc_live(const void *arena, const unsigned char *present, size_t page)
{
    const size_t size = hf_pymalloc_arena_size(), pool_size = hf_py_pool_size(size);
    size_t bytes = 0, each;
    /* Outside the region, arenas begin at any page. */
    for (size_t at = -(uintptr_t)arena & (pool_size - 1); at + pool_size <= size; at += pool_size)
        if ((present[at / page] & 1) != 0)
            bytes += blocks_in((const char *)arena + at, pool_size, &each) * each;
    return bytes;
}

int hf_pymalloc_left(int64_t interpreter, bool give_back, struct hf_pymalloc_left *out)
{
    const size_t size = atomic_load_explicit(&arena_size, memory_order_relaxed);
    size_t position = 0, each;
    char *arena;
    *out = (struct hf_pymalloc_left){.leaked = atomic_load_explicit(&leaked, memory_order_relaxed)};
    if (table.previous.interpreters == NULL)
        return -ENOENT;
    if (is_alive(interpreter))
        return -EBUSY;
    while ((arena = hf_arena_owners_next(interpreter, &position)) != NULL) {
        for (size_t offset = 0; offset < size; offset += hf_py_pool_size(size))
            out->blocks += blocks_in(arena + offset, hf_py_pool_size(size), &each);
        out->bytes += size;
        out->arenas++;
        if (give_back)
            hf_pymalloc_arena_free(arena);
    }
    return out->arenas != 0 ? 0 : -ENOENT;
}

void hf_pymalloc_offer_post(hf_pymalloc_post *post)
{
    struct hf_seal seal;
    hf_seal_open_to_start(&seal);
    table.previous.post = post;
    hf_seal_close(&seal);
}
