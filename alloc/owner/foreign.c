/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the table of foreign allocators. One thread reserves a number, fills its entry and publishes
 * it; all threads read without a lock; published entries stay for ever. Callable at any stage.
 * Until the first foreign allocator is published, a lookup costs two loads.
 */
#include "alloc/owner/foreign.h"

#include "alloc/base/apart.h"
#include "alloc/base/libc_functions.h"
#include "alloc/base/seal.h"
#include "alloc/owner/foreign_pages.h"
#include "alloc/owner/libc_heap.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Indexed by number. Number 0 is no allocator's; its entry holds libc's own functions
 * (hf_foreign_begin_deep()). Sealed, because a page's number alone decides that an entry's
 * functions are called. */
static HF_SEALED_UNION(struct hf_foreign_allocator[HF_FOREIGN_MAX + 1], allocators) table HF_SEALED;
static _Atomic(uint8_t) states[HF_FOREIGN_MAX + 1];
enum { STATE_FREE, STATE_RESERVED, STATE_KNOWN };
static atomic_uint highest; /* number that was ever published */

/* Numbers of the allocators that can be asked, in order of publication: private ones, and those
 * that serve the process, which are asked only in deep mode and by hf_foreign_of(). */
struct askable {
    _Atomic(uint8_t) numbers[HF_FOREIGN_MAX];
    atomic_size_t count;
};
static struct askable private_ones, serving_ones;
bool hf_foreign_asks; /* of the private ones, or in deep mode */

/* Deep mode: see hf_foreign_begin_deep(). Setting `deep` publishes what is stored before it. */
static const void *serving; /* the object that defines hf_libc()'s free */
static _Atomic(bool) deep;

static void libc_free(void *ptr)
{
    hf_libc()->free(ptr);
}

static void *libc_realloc(void *ptr, size_t size)
{
    return hf_libc()->realloc(ptr, size);
}

static size_t libc_usable_size(const void *ptr)
{
    return hf_libc()->usable_size((void *)(uintptr_t)ptr);
}

/* hf_libc() as a foreign allocator; it takes the blocks of allocators that serve the process. */
const struct hf_foreign_allocator hf_foreign_scope = {
    .form = HF_FREE_PLAIN,
    .serves = HF_SERVES_PROCESS,
    .release = (void *)libc_free,
    .realloc = libc_realloc,
    .usable_size = libc_usable_size,
};

/* ---- the table ---- */

unsigned hf_foreign_reserve(void)
{
    for (unsigned number = 1; number <= HF_FOREIGN_MAX; number++) {
        uint8_t expected = STATE_FREE;
        if (atomic_compare_exchange_strong(&states[number], &expected, STATE_RESERVED))
            return number;
    }
    return 0;
}

void hf_foreign_give_back(unsigned number)
{
    atomic_store(&states[number], STATE_FREE);
}

void hf_foreign_publish(unsigned number, const struct hf_foreign_allocator *allocator)
{
    struct hf_seal seal;
    if (!hf_seal_open(&seal))
        return;
    table.allocators[number] = *allocator;
    hf_seal_close(&seal);
    unsigned before = highest;
    while (before < number && !atomic_compare_exchange_weak(&highest, &before, number))
        ;
    atomic_store_explicit(&states[number], STATE_KNOWN, memory_order_release);
    if (allocator->kind == HF_QUESTION_NONE || allocator->only_pages)
        return;
    struct askable *list = allocator->serves != HF_SERVES_NOTHING ? &serving_ones : &private_ones;
    /* A reader that sees the new count before the number reads 0, and so asks no allocator. */
    list->numbers[atomic_fetch_add(&list->count, 1)] = (uint8_t)number;
    if (list == &private_ones)
        __atomic_store_n(&hf_foreign_asks, true, __ATOMIC_RELEASE);
}

const struct hf_foreign_allocator *hf_foreign_at(unsigned number)
{
    if (number == 0 || number > HF_FOREIGN_MAX)
        return NULL;
    bool known = atomic_load_explicit(&states[number], memory_order_acquire) == STATE_KNOWN;
    return known ? &table.allocators[number] : NULL;
}

const struct hf_foreign_allocator *hf_foreign_in(const void *map)
{
    for (unsigned number = 1, last = highest; number <= last; number++) {
        const struct hf_foreign_allocator *allocator = hf_foreign_at(number);
        if (allocator != NULL && allocator->map == map)
            return allocator;
    }
    return NULL;
}

const struct hf_live_foreign hf_foreign_live = {
    .entries = table.allocators,
    .states = states,
    .count = HF_FOREIGN_MAX + 1,
    .known = STATE_KNOWN,
    .entry_size = sizeof(struct hf_foreign_allocator),
    .entry_name = offsetof(struct hf_foreign_allocator, name),
    .entry_map = offsetof(struct hf_foreign_allocator, map),
    .entry_path = offsetof(struct hf_foreign_allocator, object),
    .entry_form = offsetof(struct hf_foreign_allocator, form),
    .pages = hf_foreign_pages_root,
    .pages_count = sizeof hf_foreign_pages_root / sizeof hf_foreign_pages_root[0],
    .leaf_shift = HF_FOREIGN_PAGES_LEAF_SHIFT,
    .page_shift = HF_FOREIGN_PAGES_SHIFT,
};

/* ---- finding the owner ---- */

static bool claims(const struct hf_foreign_allocator *allocator, const void *ptr)
{
    int saved_errno = errno;
    bool yes = false;
    switch (allocator->kind) {
    case HF_QUESTION_NONE:
        break;
    case HF_QUESTION_TRUE:
        /* mimalloc 3.0 also says yes to NULL. */
        yes = ptr != NULL && ((bool (*)(const void *))allocator->question)(ptr);
        break;
    case HF_QUESTION_ONE:
        yes = ((int (*)(const void *))allocator->question)(ptr) == 1;
        break;
    case HF_QUESTION_ANSWER:
        yes = ((int (*)(const void *))allocator->question)(ptr) != ALLOCATOR_REGISTRY_NOT_MINE;
        break;
    case HF_QUESTION_RTREE:
        yes = hf_rtree_holds(&allocator->tree, ptr);
        break;
    }
    errno = saved_errno;
    return yes;
}

/* Finds the owner among several allocators in the object that mapped the page: asks those that can
 * be asked; if none says yes, guesses the one that cannot be asked, if there is exactly one. */
static const struct hf_foreign_allocator *among_sharers(const struct hf_foreign_allocator *first,
                                                        const void *ptr, bool *guessed)
{
    const struct hf_foreign_allocator *silent = NULL;
    bool several_silent = false;
    for (unsigned number = 1, last = highest; number <= last; number++) {
        const struct hf_foreign_allocator *allocator = hf_foreign_at(number);
        if (allocator == NULL || allocator->map != first->map)
            continue;
        if (allocator->kind == HF_QUESTION_NONE) {
            several_silent |= silent != NULL;
            silent = allocator;
        } else if (claims(allocator, ptr)) {
            return allocator;
        }
    }
    *guessed = true;
    return several_silent ? NULL : silent;
}

__thread const void *hf_foreign_handed_on;

static bool is_handed_on(const struct hf_foreign_allocator *owner, const void *ptr)
{
    return owner->kind == HF_QUESTION_ANSWER && HF_UNLIKELY(ptr == hf_foreign_handed_on);
}

static const struct hf_foreign_allocator *ask(const struct askable *list, const void *ptr)
{
    size_t count = atomic_load_explicit(&list->count, memory_order_acquire);
    for (size_t i = 0; HF_UNLIKELY(i < count); i++) {
        const struct hf_foreign_allocator *allocator = hf_foreign_at(list->numbers[i]);
        if (allocator != NULL && claims(allocator, ptr))
            return allocator;
    }
    return NULL;
}

/* `all`: also asks allocators that serve the process. */
static const struct hf_foreign_allocator *find(const void *ptr, bool all, bool *guessed)
{
    const struct hf_foreign_allocator *allocator = hf_foreign_at(hf_foreign_pages_id(ptr));
    if (HF_UNLIKELY(allocator != NULL)) {
        if (HF_LIKELY(!allocator->shares && !allocator->maps_all))
            return allocator;
        const struct hf_foreign_allocator *owner = among_sharers(allocator, ptr, guessed);
        if (owner != NULL || !allocator->maps_all)
            return owner;
        *guessed = false;
    }
    allocator = ask(&private_ones, ptr);
    return allocator == NULL && HF_UNLIKELY(all) ? ask(&serving_ones, ptr) : allocator;
}

const struct hf_foreign_allocator *hf_foreign_of(const void *ptr)
{
    bool guessed = false;
    return find(ptr, true, &guessed);
}

const struct hf_hosted *hf_foreign_hosted_of(const void *ptr)
{
    const struct hf_foreign_allocator *allocator = hf_foreign_at(hf_foreign_pages_id(ptr));
    return allocator != NULL ? allocator->hosted : NULL;
}

/* ---- counting an allocator's bytes ---- */

struct share {
    const struct hf_foreign_allocator *wanted, *last; /* last: who claims the nearest page before */
    const char *end;                                  /* of the run before */
    size_t bytes, before; /* before: pages of nobody at the start of adjacent runs */
};

static void add_share(const void *start, size_t size, void *context)
{
    struct share *share = context;
    if (start != share->end) {
        share->last = NULL;
        share->before = 0;
    }
    share->end = (const char *)start + size;
    for (const char *page = start; page < share->end; page += HF_FOREIGN_PAGES_PAGE) {
        bool guessed = false;
        const struct hf_foreign_allocator *owner = among_sharers(share->wanted, page, &guessed);
        if (owner != NULL && share->last == NULL && owner == share->wanted)
            share->bytes += share->before * HF_FOREIGN_PAGES_PAGE;
        share->last = owner != NULL ? owner : share->last;
        share->before += share->last == NULL;
        share->bytes += share->last == share->wanted ? HF_FOREIGN_PAGES_PAGE : 0;
    }
}

size_t hf_foreign_bytes(unsigned number)
{
    struct share share = {.wanted = hf_foreign_at(number)};
    if (share.wanted == NULL)
        return 0;
    if (!share.wanted->shares)
        return hf_foreign_pages_bytes(number);
    /* A shared page carries the number of whichever allocator of the object was found first. */
    for (unsigned other = 1, last = highest; other <= last; other++) {
        const struct hf_foreign_allocator *allocator = hf_foreign_at(other);
        if (allocator != NULL && allocator->map == share.wanted->map)
            hf_foreign_pages_visit(other, add_share, &share);
    }
    return share.bytes;
}

static HF_APART _Atomic(uint64_t) leaked[HF_FOREIGN_MAX + 1];

uint64_t hf_foreign_leak(const struct hf_foreign_allocator *allocator)
{
    return atomic_fetch_add(&leaked[allocator - table.allocators], 1);
}

uint64_t hf_foreign_leaked(unsigned number)
{
    return leaked[number];
}

/* ---- choosing the function to call ---- */

/* Decides about a pointer that no allocator is known to own, on its way to an allocator that can be
 * asked and did not claim it: it may be libc's, or that of whoever serves the process. mimalloc
 * does not recognise its own largest blocks, so the "no" counts only if the real owner is certain.
 */
static __attribute__((noinline, cold)) const struct hf_foreign_allocator *
instead_of_allocator(const void *ptr, const void *map, bool is_deep)
{
    bool asked = false, believed = true, serves = false;
    for (unsigned number = 1, last = highest; number <= last; number++) {
        const struct hf_foreign_allocator *allocator = hf_foreign_at(number);
        if (allocator == NULL || allocator->map != map)
            continue;
        if (allocator->kind == HF_QUESTION_NONE)
            return NULL;
        asked = true;
        believed &= allocator->kind != HF_QUESTION_TRUE && !allocator->denies;
        serves |= allocator->serves == HF_SERVES_PROCESS;
    }
    if (!asked || ptr == NULL)
        return NULL;
    if (is_deep) /* find() has asked the serving ones */
        return (serves && believed) || hf_libc_heap_holds(ptr) ? &table.allocators[0] : NULL;
    if (serves)
        return NULL;
    const struct hf_foreign_allocator *owner = ask(&serving_ones, ptr);
    const bool of_scope =
        owner != NULL ? owner->serves == HF_SERVES_PROCESS : hf_libc_heap_holds(ptr);
    return of_scope ? &hf_foreign_scope : NULL;
}

const struct hf_foreign_allocator *hf_foreign_instead(const void *ptr,
                                                      const struct hf_definer *definer)
{
    bool guessed = false;
    bool is_deep = atomic_load_explicit(&deep, memory_order_acquire);
    const struct hf_foreign_allocator *owner = find(ptr, is_deep, &guessed);
    if (HF_LIKELY(owner == NULL))
        return HF_LIKELY(definer->runtime) ? NULL
                                           : instead_of_allocator(ptr, definer->map, is_deep);
    const bool of_process = owner->serves == HF_SERVES_PROCESS;
    if (owner->map == definer->map || is_handed_on(owner, ptr))
        return NULL;
    if (definer->runtime)
        return !of_process ? owner : is_deep ? &hf_foreign_scope : NULL;
    if (guessed || !hf_foreign_lives_in(definer->map))
        return NULL;
    return of_process ? &hf_foreign_scope : owner->serves == HF_SERVES_NOTHING ? owner : NULL;
}

const struct hf_foreign_allocator *hf_foreign_instead_of_ours(const void *ptr)
{
    bool guessed = false;
    bool is_deep = atomic_load_explicit(&deep, memory_order_acquire);
    const struct hf_foreign_allocator *owner = find(ptr, is_deep, &guessed);
    if (owner != NULL)
        return owner->serves == HF_SERVES_PROCESS || is_handed_on(owner, ptr) ? NULL : owner;
    return HF_UNLIKELY(is_deep) ? instead_of_allocator(ptr, serving, true) : NULL;
}

void hf_foreign_begin_deep(const struct hf_foreign_allocator *libc_functions,
                           const void *serving_map)
{
    struct hf_seal seal;
    if (deep || !hf_seal_open(&seal))
        return;
    table.allocators[0] = *libc_functions;
    hf_seal_close(&seal);
    serving = serving_map;
    atomic_store_explicit(&deep, true, memory_order_release);
    __atomic_store_n(&hf_foreign_asks, true, __ATOMIC_RELEASE);
}

bool hf_foreign_is_deep(void)
{
    return atomic_load_explicit(&deep, memory_order_acquire);
}
