/*
 * Owns the table of neighbours: a number is reserved, filled and published by one thread, and read
 * by all without a lock; published ones stay. May be called at any stage; before the first
 * neighbour is known it costs two loads.
 */
#include "foreign.h"

#include "fatal.h"
#include "libc_heap.h"
#include "ranges.h"
#include "seal.h"
#include "static_data.h"
#include "watch.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* By number; 0 is nobody's, and holds libc's own functions (hf_foreign_begin_deep()). Sealed: their
 * functions are called on the word of the page alone. */
static union {
    struct hf_neighbour neighbours[HF_NEIGHBOURS_MAX + 1];
    char pages[HF_SEAL_SIZE(struct hf_neighbour[HF_NEIGHBOURS_MAX + 1])];
} table HF_SEALED;
static _Atomic(uint8_t) states[HF_NEIGHBOURS_MAX + 1];
enum { STATE_FREE, STATE_RESERVED, STATE_KNOWN };

/* The numbers of those that can be asked, in the order in which they became known: private ones,
 * and those that serve the process, which are asked only when it matters. */
struct askable {
    _Atomic(uint8_t) numbers[HF_NEIGHBOURS_MAX];
    atomic_size_t count;
};
static struct askable private_ones, serving_ones;

/* See hf_foreign_begin_deep(). What is before `deep` is written before it. */
static struct hf_definer serving; /* of hf_libc()'s free */
static _Atomic(bool) deep;

static const struct hf_libc libc = {malloc, calloc, memalign, realloc, free, malloc_usable_size};

/* The same as a neighbour: where the blocks of allocators go that serve the process. */
static const struct hf_neighbour scope = {
    .form = HF_RELEASE_PLAIN,
    .serves = HF_SERVES_PROCESS,
    .release = (void *)free,
    .realloc = realloc,
    .usable_size = (size_t(*)(const void *))malloc_usable_size,
};

const struct hf_libc *hf_libc(void)
{
    return &libc;
}

/* Whether what is freed there is to be looked at first (static_data.h). */
static bool guarded;

__attribute__((constructor(101))) static void construct(void)
{
    guarded = hf_static_guards("free", (const void *)libc.free);
}

static bool is_suspect(const void *ptr)
{
    return guarded && HF_UNLIKELY(hf_static_suspect(ptr));
}

/* ---- the table ---- */

unsigned hf_neighbour_reserve(void)
{
    for (unsigned number = 1; number <= HF_NEIGHBOURS_MAX; number++) {
        uint8_t expected = STATE_FREE;
        if (atomic_compare_exchange_strong(&states[number], &expected, STATE_RESERVED))
            return number;
    }
    return 0;
}

void hf_neighbour_give_back(unsigned number)
{
    atomic_store(&states[number], STATE_FREE);
}

void hf_neighbour_publish(unsigned number, const struct hf_neighbour *neighbour)
{
    struct hf_seal seal;
    if (!hf_seal_open(&seal))
        return;
    table.neighbours[number] = *neighbour;
    hf_seal_close(&seal);
    atomic_store_explicit(&states[number], STATE_KNOWN, memory_order_release);
    if (neighbour->kind == HF_QUESTION_NONE)
        return;
    struct askable *list = neighbour->serves != HF_SERVES_NOTHING ? &serving_ones : &private_ones;
    /* A reader that sees the count before the number asks nobody, number 0. */
    list->numbers[atomic_fetch_add(&list->count, 1)] = (uint8_t)number;
}

const struct hf_neighbour *hf_neighbour_at(unsigned number)
{
    if (number == 0 || number > HF_NEIGHBOURS_MAX)
        return NULL;
    bool known = atomic_load_explicit(&states[number], memory_order_acquire) == STATE_KNOWN;
    return known ? &table.neighbours[number] : NULL;
}

bool hf_neighbour_lives_in(const void *map)
{
    for (unsigned number = 1; number <= HF_NEIGHBOURS_MAX; number++) {
        const struct hf_neighbour *neighbour = hf_neighbour_at(number);
        if (neighbour != NULL && neighbour->map == map)
            return true;
    }
    return false;
}

/* ---- whose is it ---- */

static bool asked_says_yes(const struct hf_neighbour *neighbour, const void *ptr)
{
    int saved_errno = errno;
    bool yes = false;
    switch (neighbour->kind) {
    case HF_QUESTION_NONE:
        break;
    case HF_QUESTION_TRUE:
        /* mimalloc 3.0 says yes to NULL as well. */
        yes = ptr != NULL && ((bool (*)(const void *))neighbour->question)(ptr);
        break;
    case HF_QUESTION_ONE:
        yes = ((int (*)(const void *))neighbour->question)(ptr) == 1;
        break;
    case HF_QUESTION_SIZE:
        yes = ((size_t(*)(const void *, void *))neighbour->question)(ptr, NULL) != 0;
        break;
    case HF_QUESTION_TREE:
        yes = hf_page_tree_holds(&neighbour->tree, ptr);
        break;
    }
    errno = saved_errno;
    return yes;
}

/* Several allocators in the object that mapped the page: those that can be asked are, and what is
 * left over is the one that cannot, if it is one; that is a guess. */
static const struct hf_neighbour *among_sharers(const struct hf_neighbour *first, const void *ptr,
                                                bool *guessed)
{
    const struct hf_neighbour *silent = NULL;
    bool several_silent = false;
    for (unsigned number = 1; number <= HF_NEIGHBOURS_MAX; number++) {
        const struct hf_neighbour *neighbour = hf_neighbour_at(number);
        if (neighbour == NULL || neighbour->map != first->map)
            continue;
        if (neighbour->kind == HF_QUESTION_NONE) {
            several_silent |= silent != NULL;
            silent = neighbour;
        } else if (asked_says_yes(neighbour, ptr)) {
            return neighbour;
        }
    }
    *guessed = true;
    return several_silent ? NULL : silent;
}

static const struct hf_neighbour *ask(const struct askable *list, const void *ptr)
{
    size_t count = atomic_load_explicit(&list->count, memory_order_acquire);
    for (size_t i = 0; HF_UNLIKELY(i < count); i++) {
        const struct hf_neighbour *neighbour = hf_neighbour_at(list->numbers[i]);
        if (neighbour != NULL && asked_says_yes(neighbour, ptr))
            return neighbour;
    }
    return NULL;
}

/* `all`: those that serve the process are asked as well. */
static const struct hf_neighbour *find(const void *ptr, bool all, bool *guessed)
{
    const struct hf_neighbour *neighbour = hf_neighbour_at(hf_ranges_id(ptr));
    if (HF_UNLIKELY(neighbour != NULL))
        return HF_LIKELY(!neighbour->shares) ? neighbour : among_sharers(neighbour, ptr, guessed);
    neighbour = ask(&private_ones, ptr);
    return neighbour == NULL && HF_UNLIKELY(all) ? ask(&serving_ones, ptr) : neighbour;
}

const struct hf_neighbour *hf_neighbour_of(const void *ptr)
{
    bool guessed = false;
    return find(ptr, true, &guessed);
}

/* ---- how much is it ---- */

struct share {
    const struct hf_neighbour *wanted;
    size_t bytes;
};

static void add_share(const void *start, size_t size, void *context)
{
    struct share *share = context;
    size_t own = 0, others = 0;
    for (size_t at = 0; at < size; at += HF_RANGE_PAGE) {
        bool guessed = false;
        const struct hf_neighbour *owner =
            among_sharers(share->wanted, (const char *)start + at, &guessed);
        own += owner == share->wanted;
        others += owner != NULL && owner != share->wanted;
    }
    share->bytes += own != 0 && others == 0 ? size : own * HF_RANGE_PAGE;
}

size_t hf_neighbour_bytes(unsigned number)
{
    struct share share = {hf_neighbour_at(number), 0};
    if (share.wanted == NULL)
        return 0;
    if (!share.wanted->shares)
        return hf_ranges_bytes(number);
    /* Pages have the number of the first that was found in the object. */
    for (unsigned other = 1; other <= HF_NEIGHBOURS_MAX; other++) {
        const struct hf_neighbour *neighbour = hf_neighbour_at(other);
        if (neighbour != NULL && neighbour->map == share.wanted->map)
            hf_ranges_visit(other, add_share, &share);
    }
    return share.bytes;
}

/* ---- who is called ---- */

/* Whether the allocator that serves the process, in this object, says that a block is not its own,
 * and libc's it is. mimalloc does not know its largest blocks, so that libc's books have to agree.
 */
static bool is_libcs(const void *ptr, const void *map)
{
    bool asked = false, believed = true;
    for (unsigned number = 1; number <= HF_NEIGHBOURS_MAX; number++) {
        const struct hf_neighbour *neighbour = hf_neighbour_at(number);
        if (neighbour == NULL || neighbour->map != map)
            continue;
        if (neighbour->serves != HF_SERVES_PROCESS || neighbour->kind == HF_QUESTION_NONE)
            return false;
        asked = true;
        believed &= neighbour->kind != HF_QUESTION_TRUE;
    }
    return asked && (believed || hf_libc_heap_holds(ptr));
}

/* In a process where libc's allocator is in use beside the one that serves it. */
static __attribute__((noinline, cold)) const struct hf_neighbour *
instead_deep(const void *ptr, const struct hf_definer *definer, const struct hf_neighbour *owner)
{
    if (owner != NULL)
        return owner->map != definer->map && definer->runtime ? &scope : NULL;
    return !definer->runtime && ptr != NULL && is_libcs(ptr, definer->map) ? &table.neighbours[0]
                                                                           : NULL;
}

const struct hf_neighbour *hf_neighbour_instead(const void *ptr, const struct hf_definer *definer)
{
    bool guessed = false;
    bool is_deep = atomic_load_explicit(&deep, memory_order_acquire);
    const struct hf_neighbour *owner = find(ptr, is_deep, &guessed);
    if (HF_UNLIKELY(is_deep) && (owner == NULL || owner->serves == HF_SERVES_PROCESS))
        return instead_deep(ptr, definer, owner);
    if (HF_LIKELY(owner == NULL) || owner->map == definer->map)
        return NULL;
    if (definer->runtime)
        return owner->serves == HF_SERVES_PROCESS ? NULL : owner;
    return owner->serves == HF_SERVES_NOTHING && !guessed && hf_neighbour_lives_in(definer->map)
               ? owner
               : NULL;
}

/* The same for homefree's own functions, which take every pointer; NULL: hf_libc()'s. */
static const struct hf_neighbour *instead_of_ours(const void *ptr)
{
    bool guessed = false;
    bool is_deep = atomic_load_explicit(&deep, memory_order_acquire);
    const struct hf_neighbour *owner = find(ptr, is_deep, &guessed);
    if (owner != NULL)
        return owner->serves == HF_SERVES_PROCESS ? NULL : owner;
    return HF_UNLIKELY(is_deep) ? instead_deep(ptr, &serving, NULL) : NULL;
}

void hf_foreign_begin_deep(const struct hf_neighbour *libc_functions, const void *serving_map)
{
    struct hf_seal seal;
    if (deep || !hf_seal_open(&seal))
        return;
    table.neighbours[0] = *libc_functions;
    hf_seal_close(&seal);
    serving.map = serving_map;
    atomic_store_explicit(&deep, true, memory_order_release);
}

bool hf_foreign_is_deep(void)
{
    return atomic_load_explicit(&deep, memory_order_acquire);
}

/* ---- sending it home ---- */

static void homeless(const struct hf_neighbour *neighbour, const void *ptr, const char *call,
                     const void *caller) __attribute__((noreturn, cold));

static void homeless(const struct hf_neighbour *neighbour, const void *ptr, const char *call,
                     const void *caller)
{
    struct hf_text text;
    hf_text_begin(&text);
    hf_text_add(&text, "fatal: ");
    hf_text_add(&text, call);
    hf_text_add(&text, "(");
    hf_text_add_hex(&text, (uintptr_t)ptr);
    hf_text_add(&text, "): the block belongs to the ");
    hf_text_add(&text, neighbour->allocator);
    hf_text_add(&text, " inside ");
    hf_text_add(&text, neighbour->object);
    hf_text_add(&text, ", which has no function that could be called for this");
    if (caller != NULL) {
        hf_text_add(&text, "; called from ");
        hf_text_add_code(&text, caller);
    }
    hf_text_add(&text, "; going on would hand it to libc, which did not allocate it; install that "
                       "object's debug file or an unstripped build of it, or free the block by "
                       "that object's own function");
    hf_fatal(&text);
}

/* errno survives a free() (POSIX.1-2024); not every allocator cares. */
void hf_neighbour_free(const struct hf_neighbour *neighbour, void *ptr, const void *caller)
{
    int saved_errno = errno;
    switch (neighbour->form) {
    case HF_RELEASE_PLAIN:
        ((void (*)(void *))neighbour->release)(ptr);
        break;
    case HF_RELEASE_FLAGS:
        ((void (*)(void *, int))neighbour->release)(ptr, 0);
        break;
    case HF_RELEASE_RESIZE:
        ((void *(*)(void *, size_t))neighbour->release)(ptr, 0);
        break;
    case HF_RELEASE_TENANT:
        neighbour->tenant->free(ptr, caller);
        break;
    case HF_RELEASE_NONE:
        homeless(neighbour, ptr, "free", caller);
    }
    errno = saved_errno;
}

void *hf_neighbour_realloc(const struct hf_neighbour *neighbour, void *ptr, size_t size,
                           const void *caller)
{
    if (neighbour->form == HF_RELEASE_TENANT)
        return neighbour->tenant->realloc(ptr, size, caller);
    if (size == 0 &&
        neighbour->form != HF_RELEASE_NONE) { /* as libc's does, whatever theirs does */
        hf_neighbour_free(neighbour, ptr, caller);
        return NULL;
    }
    if (neighbour->realloc != NULL)
        return neighbour->realloc(ptr, size);
    if (neighbour->usable_size == NULL || neighbour->form == HF_RELEASE_NONE)
        homeless(neighbour, ptr, "realloc", caller);
    size_t old = neighbour->usable_size(ptr);
    void *moved = libc.malloc(size);
    if (moved == NULL)
        return NULL;
    memcpy(moved, ptr, old < size ? old : size);
    hf_neighbour_free(neighbour, ptr, caller);
    return moved;
}

size_t hf_neighbour_usable_size(const struct hf_neighbour *neighbour, const void *ptr,
                                const void *caller)
{
    if (neighbour->form == HF_RELEASE_TENANT)
        return neighbour->tenant->usable_size(ptr, caller);
    return neighbour->usable_size != NULL ? neighbour->usable_size(ptr) : 0;
}

static bool is_watched(void)
{
    return HF_UNLIKELY(__atomic_load_n(&hf_watching, __ATOMIC_RELAXED));
}

static __attribute__((noinline, cold)) void watch(const struct hf_neighbour *neighbour, void *ptr,
                                                  const void *caller, bool freed)
{
    const char *object = neighbour != NULL ? neighbour->object : NULL;
    struct hf_owner owner = {.object = NULL};
    if (neighbour != NULL && neighbour->form == HF_RELEASE_TENANT) {
        neighbour->tenant->describe(ptr, &owner);
        object = owner.object;
    }
    size_t size = object != NULL ? owner.block_size : libc.usable_size(ptr);
    hf_watch_freed_foreign(ptr, size, object, caller, freed);
}

void hf_watch_foreign(void *ptr)
{
    if (is_watched() && ptr != NULL && !hf_owned(ptr))
        watch(instead_of_ours(ptr), ptr, __builtin_return_address(0), true);
}

void hf_free_foreign(void *ptr)
{
    if (ptr == NULL)
        return;
    /* The first call of all may be a free: only a started copy knows the region. */
    if (HF_UNLIKELY(hf_region.size == 0)) {
        hf_heap_start();
        if (hf_owned(ptr)) {
            hf_free(ptr);
            return;
        }
    }
    const struct hf_neighbour *neighbour = instead_of_ours(ptr);
    if (is_watched())
        watch(neighbour, ptr, __builtin_return_address(0), true);
    if (neighbour == NULL && is_suspect(ptr) &&
        hf_static_freed(ptr, "free", __builtin_return_address(0)))
        return;
    hf_neighbour_free(neighbour != NULL ? neighbour : &scope, ptr, __builtin_return_address(0));
}

void *hf_foreign_realloc(void *ptr, size_t size, const void *caller)
{
    const struct hf_neighbour *neighbour = instead_of_ours(ptr);
    if (is_watched())
        watch(neighbour, ptr, caller, size == 0);
    if (neighbour != NULL)
        return hf_neighbour_realloc(neighbour, ptr, size, caller);
    void *moved;
    if (is_suspect(ptr) && hf_static_resized(ptr, size, caller, &moved))
        return moved;
    return libc.realloc(ptr, size);
}

size_t hf_foreign_usable_size(const void *ptr)
{
    const struct hf_neighbour *neighbour = instead_of_ours(ptr);
    return hf_neighbour_usable_size(neighbour != NULL ? neighbour : &scope, ptr,
                                    __builtin_return_address(0));
}
