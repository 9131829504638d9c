/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See interpreter_heaps.h. Heaps are found by CPython's number for the interpreter, which is never
 * used again: a number's heap lies in its own slot of the table or in one of the next. The heap of
 * an interpreter for which the table has no room, or that could not be made, is never dropped.
 */
#include "loader/host/interpreter_heaps.h"

#include "alloc/base/fork_lock.h"
#include "alloc/heap/internal.h"

#include <errno.h>
#include <pthread.h>

#define SLOTS 2048
#define NEAR  16 /* slots in which a number is looked for */
#define SMALL 64
#define LARGE 4096 /* more than pymalloc serves itself */

atomic_bool hf_interpreter_heaps;

/* Where CPython's object allocator calls PyMem_RawMalloc(), for itself and from its realloc, and
 * PyMem_RawCalloc(), for itself and for inner and outer nodes of its tree. NULL: not known. */
enum { MALLOC, GROWTH, CALLOC, INNER, OUTER, CALLS };
static const void *_Atomic calls[CALLS];
/* Of 3.12 and newer, with addresses of 64 bits. */
#define INNER_SIZE ((size_t)1 << 18)
#define OUTER_SIZE ((size_t)1 << 17)

/* The thread that learns them; 0: none does. */
static struct {
    _Atomic pthread_t thread;
    const void *caller; /* of its last call */
} probe;
struct home {
    struct hf_heap *heap;
    struct hf_limit *limit; /* NULL: none */
    unsigned number;        /* the limit's; HF_LIMITS_COUNT: none */
};
/* The thread that makes an interpreter; 0: none does. */
static struct {
    _Atomic pthread_t thread;
    struct home home;
    bool nodes; /* its first arena was handed out: two nodes follow */
} making;

static struct {
    _Atomic int64_t interpreter; /* 0: free; the main interpreter has no heap of its own */
    struct home home;            /* written before the number */
    bool is_kept;                /* under the lock */
} slots[SLOTS];
static pthread_mutex_t HF_FORK_LOCK lock = PTHREAD_MUTEX_INITIALIZER;

static size_t place_of(int64_t interpreter, int64_t there)
{
    for (size_t step = 0; step < NEAR; step++) {
        const size_t at = ((size_t)interpreter + step) % SLOTS;
        if (atomic_load_explicit(&slots[at].interpreter, memory_order_acquire) == there)
            return at;
    }
    return SLOTS;
}

static bool is_object_call(const void *caller, bool zeroed)
{
    const int first = zeroed ? CALLOC : MALLOC, last = zeroed ? OUTER : GROWTH;
    bool is = false;
    for (int i = first; i <= last; i++)
        is = is || atomic_load_explicit(&calls[i], memory_order_relaxed) == caller;
    return is;
}

static bool is_by(const _Atomic pthread_t *thread)
{
    return HF_UNLIKELY(atomic_load_explicit(thread, memory_order_relaxed) == pthread_self());
}

/* The tree of a new interpreter is empty, so what its first arena asks for is known. */
static void learn_node(size_t size, const void *caller)
{
    if (size == INNER_SIZE)
        atomic_store(&calls[INNER], caller);
    else if (size == OUTER_SIZE)
        atomic_store(&calls[OUTER], caller);
    making.nodes = size == INNER_SIZE;
}

static const struct home *home_of(int64_t interpreter)
{
    const size_t at = interpreter > 0 ? place_of(interpreter, interpreter) : SLOTS;
    if (at < SLOTS)
        return &slots[at].home;
    return interpreter > 0 && is_by(&making.thread) ? &making.home : NULL;
}

void *hf_interpreter_heap_count(unsigned limit, void *block)
{
    if (block == NULL || HF_LIKELY(hf_limited_claim(limit, block, false)))
        return block;
    hf_free(block);
    return hf_limited_refuse(limit);
}

bool hf_interpreter_heap_take(void **out, size_t size, bool zeroed, const void *caller)
{
    if (is_by(&probe.thread))
        probe.caller = caller;
    if (is_by(&making.thread) && making.nodes)
        learn_node(zeroed ? size : 0, caller);
    if (!is_object_call(caller, zeroed))
        return false;
    const struct hf_cpython_interpreters *py = hf_cpython_interpreters();
    struct hf_py_thread *thread = py != NULL ? py->cpython->current_thread() : NULL;
    if (thread == NULL)
        return false;
    const struct home *home = home_of(py->interpreter_id(py->interpreter_of(thread)));
    if (home == NULL)
        return false;
    const unsigned limit = home->number;
    if (limit == HF_LIMITS_COUNT || hf_limited_fits(&hf_limited[limit], size)) {
        *out = hf_heaps()->take(home->heap, 0, size, zeroed, caller);
        if (*out == NULL)
            return false;
        if (limit != HF_LIMITS_COUNT)
            *out = hf_interpreter_heap_count(limit, *out);
    } else {
        *out = hf_limited_refuse(limit);
    }
    return true;
}

bool hf_interpreter_heap_arena(int64_t interpreter, size_t size)
{
    const struct home *home = home_of(interpreter);
    if (home != NULL && home->number != HF_LIMITS_COUNT && !hf_limited_charge(home->number, size))
        return false;
    if (is_by(&making.thread) && calls[INNER] == NULL)
        making.nodes = true;
    return true;
}

void hf_interpreter_heap_arena_ends(int64_t interpreter, size_t size)
{
    const struct home *home = home_of(interpreter);
    if (home != NULL && home->number != HF_LIMITS_COUNT)
        hf_limited_credit(home->number, size);
}

struct hf_limit *hf_interpreter_heap_limit(int64_t interpreter, unsigned *number)
{
    const struct home *home = home_of(interpreter);
    *number = home != NULL ? home->number : HF_LIMITS_COUNT;
    return home != NULL ? home->limit : NULL;
}

struct hf_heap *hf_interpreter_heap_of(int64_t interpreter)
{
    const struct home *home = home_of(interpreter);
    return home != NULL ? home->heap : NULL;
}

struct hf_limit *hf_interpreter_heap_unlimit(int64_t interpreter)
{
    const size_t at = interpreter > 0 ? place_of(interpreter, interpreter) : SLOTS;
    struct hf_limit *limit = at < SLOTS ? slots[at].home.limit : NULL;
    if (limit != NULL) {
        slots[at].home.limit = NULL;
        slots[at].home.number = HF_LIMITS_COUNT;
    }
    return limit;
}

/* Where the last call returned to; NULL: none reached the hook of the RAW domain. */
static const void *last_call(void)
{
    const void *caller = probe.caller;
    probe.caller = NULL;
    return caller;
}

/* Lets CPython's object allocator ask for such blocks. The calling thread is attached. Where a RAW
 * call of others returns to the same address, as through CPython's debug hooks, the two cannot be
 * told apart, and no interpreter has blocks of its own; nor if the object domain is the heap's
 * (domains.c). */
static void learn(const struct hf_cpython *cpython)
{
    struct hf_py_allocator objects;
    const void *found[CALLOC + 1];
    (void)hf_cpython_bottom(cpython, HF_PY_OBJECT, &objects, NULL);
    atomic_store(&hf_interpreter_heaps, true);
    atomic_store(&probe.thread, pthread_self());
    void *block = objects.malloc(objects.ctx, LARGE);
    found[MALLOC] = last_call();
    objects.free(objects.ctx, block);
    block = objects.malloc(objects.ctx, SMALL);
    block = block != NULL ? objects.realloc(objects.ctx, block, LARGE) : NULL;
    found[GROWTH] = last_call();
    objects.free(objects.ctx, block);
    block = objects.calloc(objects.ctx, 1, LARGE);
    found[CALLOC] = last_call();
    objects.free(objects.ctx, block);
    cpython->raw_free(cpython->raw_malloc(LARGE));
    const void *others = last_call();
    atomic_store(&probe.thread, 0);
    for (int i = MALLOC; i <= CALLOC; i++)
        if (found[i] != others)
            atomic_store(&calls[i], found[i]);
}

/* ---- beginning and ending ---- */

int hf_interpreter_heap_prepare(struct hf_limit *limit, unsigned number)
{
    const struct hf_heaps_functions *heaps = hf_heaps();
    struct hf_heap *heap;
    if (heaps == NULL)
        return -ENOMEM;
    if (calls[MALLOC] == NULL)
        learn(hf_cpython());
    if (limit != NULL && calls[MALLOC] == NULL)
        return -ENOTSUP;
    if (heaps->make(&heap) != 0)
        return -ENOMEM;
    making.home = (struct home){.heap = heap, .limit = limit, .number = number};
    making.nodes = false;
    atomic_store(&making.thread, pthread_self());
    return 0;
}

bool hf_interpreter_heap_begin(int64_t interpreter)
{
    if (!is_by(&making.thread))
        return false;
    pthread_mutex_lock(&lock);
    const size_t at = interpreter > 0 ? place_of(interpreter, 0) : SLOTS;
    if (at < SLOTS) {
        slots[at].home = making.home;
        slots[at].is_kept = false;
        atomic_store_explicit(&slots[at].interpreter, interpreter, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    atomic_store(&making.thread, 0);
    return at < SLOTS;
}

bool hf_interpreter_heap_keep(int64_t interpreter)
{
    pthread_mutex_lock(&lock);
    const size_t at = interpreter > 0 ? place_of(interpreter, interpreter) : SLOTS;
    if (at < SLOTS)
        slots[at].is_kept = true;
    pthread_mutex_unlock(&lock);
    return at < SLOTS;
}

struct hf_heap *hf_interpreter_heap_end(int64_t interpreter, bool *is_kept)
{
    struct hf_heap *heap = NULL;
    *is_kept = false;
    pthread_mutex_lock(&lock);
    const size_t at = interpreter > 0 ? place_of(interpreter, interpreter) : SLOTS;
    if (at < SLOTS) {
        heap = slots[at].home.heap;
        *is_kept = slots[at].is_kept;
        atomic_store_explicit(&slots[at].interpreter, 0, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return heap;
}
