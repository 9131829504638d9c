/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * jemalloc, behind pages.h: its arena 0, whose extents lie in the region and return there as soon
 * as they are purged, so that it retains no addresses. Owns the hooks and the counts, and the first
 * pages, which are handed out without jemalloc. jemalloc locks itself, below the locks of its start
 * and of purging; below its own come the region's. What jemalloc calls of libc is in beneath.c.
 */
#include "alloc/pages/pages.h"

#include "alloc/base/clock.h"
#include "alloc/base/crash_signals.h"
#include "alloc/base/fork_lock.h"
#include "alloc/base/options.h"
#include "alloc/base/other_stack.h"
#include "alloc/heap/region.h"
#include "alloc/pages/beneath.h"
#include "alloc/pages/present.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

/* ---- jemalloc's public interface ---- */

typedef struct extent_hooks_s extent_hooks_t;
struct extent_hooks_s {
    void *(*alloc)(extent_hooks_t *, void *, size_t, size_t, bool *, bool *, unsigned);
    bool (*dalloc)(extent_hooks_t *, void *, size_t, bool, unsigned);
    void (*destroy)(extent_hooks_t *, void *, size_t, bool, unsigned);
    bool (*commit)(extent_hooks_t *, void *, size_t, size_t, size_t, unsigned);
    bool (*decommit)(extent_hooks_t *, void *, size_t, size_t, size_t, unsigned);
    bool (*purge_lazy)(extent_hooks_t *, void *, size_t, size_t, size_t, unsigned);
    bool (*purge_forced)(extent_hooks_t *, void *, size_t, size_t, size_t, unsigned);
    bool (*split)(extent_hooks_t *, void *, size_t, size_t, size_t, bool, unsigned);
    bool (*merge)(extent_hooks_t *, void *, size_t, void *, size_t, bool, unsigned);
};
void *hf_je_mallocx(size_t size, int flags);
void hf_je_dallocx(void *ptr, int flags);
size_t hf_je_xallocx(void *ptr, size_t size, size_t extra, int flags);
size_t hf_je_sallocx(const void *ptr, int flags);
int hf_je_mallctl(const char *name, void *out, size_t *out_size, void *in, size_t in_size);
extern const char *hf_je_malloc_conf;
extern void (*hf_je_malloc_message)(void *context, const char *text);

/* Arena 0, no thread cache. */
enum { FLAGS = 1 << 20 | 1 << 8 };

/* One arena; freed pages wait for a purge of ours. Large blocks keep their size classes: with sizes
 * in whole pages, freed ones fit fewer requests. Looking after thread caches, of which there are
 * none, is put off for ever. */
#define CONFIGURATION                                                                         \
    "narenas:1,tcache:false,tcache_gc_incr_bytes:1125899906842624,retain:false,dss:disabled," \
    "cache_oblivious:false,oversize_threshold:0,disable_large_size_classes:false,"            \
    "trust_madvise:true,zero_realloc:free,background_thread:false,muzzy_decay_ms:0,"          \
    "dirty_decay_ms:"

/* ---- hooks ---- */

static size_t mapped; /* bytes of extents; atomic */

/* From 2 MiB on for huge pages, if there is room for that. */
static void *hook_alloc(extent_hooks_t *hooks, void *wanted, size_t size, size_t alignment,
                        bool *zero, bool *commit, unsigned arena)
{
    (void)hooks, (void)arena;
    void *at = MAP_FAILED;
    if (wanted != NULL)
        return NULL;
    if (size >= HF_PAGE_2M && alignment < HF_PAGE_2M)
        at = hf_region_map_aligned(size, HF_PAGE_2M, PROT_READ | PROT_WRITE);
    if (at == MAP_FAILED)
        at = hf_region_map_aligned(size, alignment, PROT_READ | PROT_WRITE);
    if (at == MAP_FAILED)
        return NULL;
    __atomic_add_fetch(&mapped, size, __ATOMIC_RELAXED);
    hf_beneath_set_fresh(at);
    hf_present_advise(at, size);
    *zero = *commit = true;
    return at;
}

static bool hook_dalloc(extent_hooks_t *hooks, void *at, size_t size, bool committed,
                        unsigned arena)
{
    (void)hooks, (void)committed, (void)arena;
    if (hf_region_unmap(at, size) != 0)
        return true;
    __atomic_sub_fetch(&mapped, size, __ATOMIC_RELAXED);
    return false;
}

/* For what the former could not give back. */
static bool hook_purge(extent_hooks_t *hooks, void *at, size_t size, size_t offset, size_t length,
                       unsigned arena)
{
    (void)hooks, (void)size, (void)arena;
    return madvise((char *)at + offset, length, MADV_DONTNEED) != 0;
}

static bool hook_split(extent_hooks_t *hooks, void *at, size_t size, size_t first, size_t second,
                       bool committed, unsigned arena)
{
    (void)hooks, (void)at, (void)size, (void)first, (void)second, (void)committed, (void)arena;
    return false;
}

static bool hook_merge(extent_hooks_t *hooks, void *first, size_t first_size, void *second,
                       size_t second_size, bool committed, unsigned arena)
{
    (void)hooks, (void)first, (void)first_size, (void)second, (void)second_size, (void)committed;
    (void)arena;
    return false;
}

static extent_hooks_t hooks = {
    .alloc = hook_alloc,
    .dalloc = hook_dalloc,
    .purge_forced = hook_purge,
    .split = hook_split,
    .merge = hook_merge,
};

/* A process that needs few pages never starts jemalloc, which costs it 40 page faults. */
static bool started; /* atomic; written with the lock */
static pthread_mutex_t HF_FORK_LOCK start_lock = PTHREAD_MUTEX_INITIALIZER;

static bool has_started(void)
{
    return __atomic_load_n(&started, __ATOMIC_ACQUIRE);
}

/* ---- purging ---- */

/* While one thread purges, jemalloc does nothing for another that asks for it: what comes back
 * meanwhile would stay, also after the last thread's end. So they take turns. */
static pthread_mutex_t HF_FORK_LOCK purge_lock = PTHREAD_MUTEX_INITIALIZER;

/* With the lock. */
static void purge(void)
{
    if (!has_started())
        return;
    struct hf_beneath_seat *before = hf_beneath_sit();
    (void)hf_je_mallctl("arena.0.purge", NULL, NULL, NULL, 0);
    hf_beneath_rise(before);
}

/* ---- purging by time ---- */

/*
 * jemalloc's own decay works by calls: a program that takes and gives large blocks would purge and
 * fault in the same pages for ever. Ours looks at the clock: at the end of each window, if more was
 * unused all the time than a few windows took lately, all that is unused goes back. So a program
 * that reuses its pages keeps them, also if it does not run for some windows because others do; and
 * what a phase of it leaves behind is gone a quarter of a second later. What is kept in front of
 * pages and reused there does not count: it needs none of them. What is reused goes back once in
 * dirty_decay_ms, too: it may be more than is reused.
 */
#define MILLISECOND ((uint64_t)1000000)
#define WINDOWS     4 /* what these take is not worth a purge: it would be faulted in again */
/* Less, or less a part of what is in use, is not worth the calls. */
#define UNUSED_LEAST ((size_t)1 << 20)
#define UNUSED_PART  32

static size_t taken;         /* bytes that callers have; atomic */
static size_t window_taken;  /* bytes taken since the window began; atomic */
static size_t window_least;  /* least bytes unused since then, about; atomic */
static uint64_t window_ends; /* atomic; whoever moves it on settles */
static uint64_t purged_at;   /* atomic */
static size_t demand; /* bytes that a window took lately: an eighth less each window; atomic */
static uint64_t settled_at; /* atomic */
static uint64_t window, decay;

size_t hf_pages_taken(void)
{
    return __atomic_load_n(&taken, __ATOMIC_RELAXED);
}

size_t hf_pages_unused(void)
{
    const size_t all = __atomic_load_n(&mapped, __ATOMIC_RELAXED);
    const size_t used = hf_pages_taken();
    return all > used ? all - used : 0;
}

static void count_taken(size_t size)
{
    __atomic_add_fetch(&taken, size, __ATOMIC_RELAXED);
    __atomic_add_fetch(&window_taken, size, __ATOMIC_RELAXED);
    const size_t left = hf_pages_unused();
    if (left < __atomic_load_n(&window_least, __ATOMIC_RELAXED))
        __atomic_store_n(&window_least, left, __ATOMIC_RELAXED);
}

bool hf_pages_due(uint64_t *late)
{
    const uint64_t now = hf_clock(CLOCK_MONOTONIC_COARSE);
    uint64_t ends = __atomic_load_n(&window_ends, __ATOMIC_RELAXED);
    if (HF_LIKELY(now < ends) ||
        !__atomic_compare_exchange_n(&window_ends, &ends, now + window, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return false;
    *late = now - ends;
    return true;
}

uint64_t hf_pages_idle(void)
{
    const uint64_t now = hf_clock(CLOCK_MONOTONIC_COARSE);
    const uint64_t ends = __atomic_load_n(&window_ends, __ATOMIC_RELAXED);
    return now > ends ? now - ends : 0;
}

void hf_pages_settle(void)
{
    const uint64_t now = hf_clock(CLOCK_MONOTONIC_COARSE);
    const size_t this_window = __atomic_exchange_n(&window_taken, 0, __ATOMIC_RELAXED);
    const size_t idle = __atomic_exchange_n(&window_least, hf_pages_unused(), __ATOMIC_RELAXED);
    const uint64_t before = __atomic_exchange_n(&settled_at, now, __ATOMIC_RELAXED);
    size_t lately = __atomic_load_n(&demand, __ATOMIC_RELAXED);
    for (uint64_t at = before; at < now && lately != 0; at += window != 0 ? window : 1)
        lately -= lately / 8 + 1;
    lately = this_window > lately ? this_window : lately;
    __atomic_store_n(&demand, lately, __ATOMIC_RELAXED);
    if (idle > UNUSED_LEAST && idle > hf_pages_taken() / UNUSED_PART &&
        (idle > lately * WINDOWS || now - __atomic_load_n(&purged_at, __ATOMIC_RELAXED) >= decay) &&
        pthread_mutex_trylock(&purge_lock) == 0) {
        __atomic_store_n(&purged_at, now, __ATOMIC_RELAXED);
        purge();
        pthread_mutex_unlock(&purge_lock);
    }
}

/* ---- starting jemalloc ---- */

/* It says why it cannot start, as an allocation that fails does. */
static void say_nothing(void *context, const char *text)
{
    (void)context, (void)text;
}

/* A copy of a block of jemalloc's; NULL if there is no memory. */
static void *copy(const void *block)
{
    const size_t size = hf_je_sallocx(block, FLAGS);
    void *to = hf_je_mallocx(size, FLAGS);
    return to != NULL ? memcpy(to, block, size) : NULL;
}

static void start_here(void)
{
    extent_hooks_t *ours = &hooks;
    struct hf_beneath_seat *before = hf_beneath_sit();
    const bool has_hooks =
        hf_je_mallctl("arena.0.extent_hooks", NULL, NULL, &ours, sizeof ours) == 0;
    __atomic_store_n(&started, has_hooks && hf_beneath_share(copy), __ATOMIC_RELEASE);
    hf_beneath_rise(before);
}

/* jemalloc has a frame of 11 KiB as it starts, and may have to on a stack of 16. Of the region, so
 * that it is far from the thread's: valgrind takes one within 2 MiB for the same. No handler runs
 * there: it may need more, or look for the thread's own, as garbage collectors do. */
static void start_on_another_stack(void)
{
    enum { STACK = 64 << 10 };
    static sigset_t others, before; /* not on a small stack; with the lock */
    char *stack = hf_region_map(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
    if (stack == MAP_FAILED)
        return;
    (void)sigfillset(&others);
    for (size_t i = 0; i < HF_CRASH_SIGNALS; i++)
        (void)sigdelset(&others, hf_crash_signals[i]);
    (void)pthread_sigmask(SIG_BLOCK, &others, &before);
    if (hf_beneath_reserve()) {
        hf_call_on_stack(stack + STACK, start_here);
        hf_beneath_release();
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    /* For valgrind, it is a stack for as long as it can be used. */
    (void)hf_region_map(stack, STACK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED);
    (void)hf_region_unmap(stack, STACK);
}

static bool could_not_start; /* atomic */

static bool start(void)
{
    if (HF_LIKELY(has_started()))
        return true;
    const int saved_errno = errno; /* jemalloc's start sets it */
    pthread_mutex_lock(&start_lock);
    if (!started) {
        hf_je_malloc_conf = decay != 0 ? CONFIGURATION "-1" : CONFIGURATION "0";
        hf_je_malloc_message = say_nothing;
        start_on_another_stack();
    }
    __atomic_store_n(&could_not_start, !started, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&start_lock);
    errno = saved_errno;
    return started;
}

void hf_pages_purge(void)
{
    pthread_mutex_lock(&purge_lock);
    purge();
    pthread_mutex_unlock(&purge_lock);
}

static bool has_much_unused(void)
{
    const size_t most = (size_t)32 << 20, left = hf_pages_unused();
    return left > most && left > hf_pages_taken();
}

void hf_pages_leave(void)
{
    if (HF_LIKELY(!has_much_unused()))
        return;
    pthread_mutex_lock(&purge_lock);
    if (has_much_unused()) /* another thread's purge may have sufficed */
        purge();
    pthread_mutex_unlock(&purge_lock);
}

/* ---- the first pages ---- */

/* Each of them is handed out once, but the first, so that what lies in front of any block is the
 * heap's. What comes back loses its memory, and only addresses are lost. But a process that gets no
 * memory, so that jemalloc could not start, has nothing else: there, what comes back is handed out
 * again if nothing behind it is in use. */
#define FIRST HF_PAGE_2M
static uintptr_t first_pages, first_next; /* the second one atomic */

static bool is_first(const void *at)
{
    return (uintptr_t)at - first_pages < FIRST;
}

static void *take_first(size_t size, size_t alignment)
{
    uintptr_t next = __atomic_load_n(&first_next, __ATOMIC_ACQUIRE), at;
    do {
        at = (next + alignment - 1) & -alignment;
        if (size == 0 || size > FIRST || at - first_pages > FIRST - size)
            return NULL;
    } while (!__atomic_compare_exchange_n(&first_next, &next, at + size, true, __ATOMIC_ACQUIRE,
                                          __ATOMIC_ACQUIRE));
    __atomic_add_fetch(&mapped, size, __ATOMIC_RELAXED);
    return (void *)at;
}

static void give_first(char *at, size_t size)
{
    uintptr_t next = (uintptr_t)at + size;
    const bool fresh = madvise(at, size, MADV_DONTNEED) == 0;
    __atomic_sub_fetch(&mapped, size, __ATOMIC_RELAXED);
    if (fresh && HF_UNLIKELY(__atomic_load_n(&could_not_start, __ATOMIC_RELAXED)))
        (void)__atomic_compare_exchange_n(&first_next, &next, (uintptr_t)at, false,
                                          __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* ---- pages ---- */

bool hf_pages_start(void)
{
    decay = hf_options.dirty_decay_ms * MILLISECOND;
    window = decay < HF_PAGES_WINDOW ? decay : HF_PAGES_WINDOW;
    hf_present_start();
    void *at = hf_region_map_aligned(FIRST, FIRST, PROT_READ | PROT_WRITE);
    first_pages = (uintptr_t)at;
    first_next = first_pages + ((uintptr_t)1 << HF_LG_PAGE);
    return at != MAP_FAILED;
}

size_t hf_pages_size(size_t size)
{
    /* Four classes a doubling, of whole pages. */
    const size_t most = (size_t)7 << 60, page = (size_t)1 << HF_LG_PAGE;
    if (HF_UNLIKELY(size > most))
        return 0;
    size = size < 4 * page ? 4 * page : size;
    const size_t step = (size_t)1 << (63 - __builtin_clzl(2 * size - 1) - 3);
    const size_t unit = step > page ? step : page;
    return (size + unit - 1) & -unit;
}

/* Up to here, used pages are cleared; a larger block gets new ones. */
#define CLEARED ((size_t)1 << 20)

static void clear(void *at, size_t size)
{
    if (size <= CLEARED || madvise(at, size, MADV_DONTNEED) != 0)
        memset(at, 0, size);
}

void *hf_pages_take_fresh(size_t size, size_t alignment, bool *fresh)
{
    const size_t bytes = hf_pages_size(size);
    void *first = take_first(bytes, alignment);
    if (first != NULL) {
        *fresh = true;
        count_taken(bytes);
        return first;
    }
    if (HF_UNLIKELY(!start()))
        return NULL;
    struct hf_beneath_seat *before = hf_beneath_sit();
    void *at = hf_je_mallocx(size, FLAGS | __builtin_ctzl(alignment));
    *fresh = hf_beneath_fresh() == at;
    hf_beneath_rise(before);
    if (HF_UNLIKELY(at == NULL))
        return NULL;
    count_taken(bytes);
    return at;
}

void *hf_pages_take(size_t size, size_t alignment, bool zeroed)
{
    bool fresh;
    void *at = hf_pages_take_fresh(size, alignment, &fresh);
    if (zeroed && at != NULL && !fresh)
        clear(at, hf_pages_size(size));
    return at;
}

void hf_pages_give(void *at, size_t size)
{
    if (is_first(at)) {
        give_first(at, size);
    } else {
        struct hf_beneath_seat *before = hf_beneath_sit();
        hf_je_dallocx(at, FLAGS);
        hf_beneath_rise(before);
    }
    __atomic_sub_fetch(&taken, size, __ATOMIC_RELAXED);
}

static bool resize_first(char *at, size_t from, size_t to)
{
    if (to < from)
        give_first(at + to, from - to);
    return to <= from;
}

static bool resize(void *at, size_t to)
{
    struct hf_beneath_seat *before = hf_beneath_sit();
    const bool done = hf_je_xallocx(at, to, 0, FLAGS) == to;
    hf_beneath_rise(before);
    return done;
}

bool hf_pages_resize(void *at, size_t from, size_t to)
{
    if (!(is_first(at) ? resize_first(at, from, to) : resize(at, to)))
        return false;
    if (to > from)
        count_taken(to - from);
    else
        __atomic_sub_fetch(&taken, from - to, __ATOMIC_RELAXED);
    return true;
}

struct hf_pages_stats hf_pages_stats(void)
{
    return (struct hf_pages_stats){
        .taken = hf_pages_taken(),
        .unused = hf_pages_unused(),
        .books = hf_beneath_resident(),
    };
}
