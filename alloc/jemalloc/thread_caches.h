/*
 * How often threads' caches of the heap give unused blocks back, and what they hold. Part of
 * fast_path.h. Owns nothing.
 */

/* ---- giving back ---- */

/*
 * jemalloc looks at one class of a cache, in turn, each time the thread has allocated or freed
 * tcache_gc_incr_bytes in slower calls, and by cache_top.h's ticks, and gives three quarters of the
 * blocks back that lay unused since the last look. A busy thread does so thousands of times a
 * second, and needs the blocks again at once. So it looks once in HF_LOOK_EVERY at most; threads
 * that do little still look each time.
 */
#define HF_LOOK_EVERY 4 /* milliseconds; about what the kernel's coarse clock can tell */

/* An arena gives unused pages back when its blocks are allocated and freed, which caches prevent,
 * and those of an ended thread may never be used again. So a look is for an arena too, in turn. */
static void hf_decay_next(tsdn_t *tsdn)
{
    static unsigned next;
    const unsigned count = narenas_total_get();
    for (unsigned tries = 0; tries < count; tries++) {
        const unsigned index = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % count;
        arena_t *arena = arena_get(tsdn, index, false);
        if (arena != NULL && ehooks_are_default(arena_get_ehooks(arena))) {
            arena_decay(tsdn, arena, false, false);
            return;
        }
    }
}

static void (*hf_look_at_cache)(tsd_t *tsd); /* jemalloc's; written while the heap starts */

static void hf_look_if_due(tsd_t *tsd)
{
    if (!tcache_available(tsd))
        return;
    nstime_t *last = &tsd_tcache_slowp_get(tsd)->last_gc_time;
    const uint64_t now = hf_kept_now() * 1000000;
    if (now - nstime_ns(last) < HF_LOOK_EVERY * UINT64_C(1000000))
        return;
    nstime_init(last, now);
    hf_top_down(tsd, tsd_tcachep_get(tsd), tsd_tcache_slowp_get(tsd)->next_gc_bin);
    hf_depot_look(tsd, tsd_tcache_slowp_get(tsd)->next_gc_bin);
    hf_look_at_cache(tsd);
    hf_decay_next(tsd_tsdn(tsd));
}

/* Looks after every HF_TICKS ticks: fast calls are not counted in bytes. */
static void hf_look_now_and_then(int ticks)
{
    tsd_t *tsd = hf_thread_current();
    if (tsd == NULL || tsd == &hf_thread_emergency ||
        (tsd_hf_topsp_get_unsafe(tsd)->ticks -= ticks) >= 0)
        return;
    tsd_hf_topsp_get_unsafe(tsd)->ticks = HF_TICKS;
    if (tsd_nominal(tsd) && tsd_reentrancy_level_get(tsd) == 0)
        hf_look_if_due(tsd);
}

/* Before jemalloc starts. */
static void hf_pace_looks(void)
{
    hf_look_at_cache = tcache_gc_te_handler.event_handler;
    tcache_gc_te_handler.event_handler = hf_look_if_due;
}

/* ---- statistics ---- */

/*
 * jemalloc's statistics count as allocated what caches hold. The functions below take the lock of
 * each arena's list of caches, but read caches while their threads use them, so the sum is exact
 * only for threads that do not.
 */

/* A thread's cache of a ground. jemalloc puts an explicit cache's record right behind it. */
static bool hf_is_ground_cache(const cache_bin_array_descriptor_t *cache)
{
    const char *record = (const char *)cache - offsetof(tcache_slow_t, cache_bin_array_descriptor);
    return record == (const char *)(cache->bins + TCACHE_NBINS_MAX);
}

/* The tops of a thread whose cache this is: its data holds both. */
static void *const *hf_tops_beside(const cache_bin_array_descriptor_t *cache)
{
    const ptrdiff_t place = (char *)tsd_tcachep_get_unsafe(&tsd_tls)->bins - (char *)&tsd_tls;
    return hf_top_of((tsd_t *)((char *)cache->bins - place), 0);
}

static uint64_t hf_arena_cached(tsdn_t *tsdn, arena_t *arena)
{
    uint64_t bytes = 0;
    cache_bin_array_descriptor_t *cache;
    malloc_mutex_lock(tsdn, &arena->tcache_ql_mtx);
    ql_foreach(cache, &arena->cache_bin_array_descriptor_ql, link)
    {
        cache_bin_sz_t cached, stashed;
        for (szind_t i = 0; i < TCACHE_NBINS_MAX && !hf_is_ground_cache(cache); i++)
            if (!cache_bin_disabled(&cache->bins[i])) {
                cache_bin_nitems_get_remote(&cache->bins[i], &cached, &stashed);
                cached += hf_tops_beside(cache)[i] != NULL;
                bytes += (uint64_t)cached * sz_index2size(i);
            }
    }
    malloc_mutex_unlock(tsdn, &arena->tcache_ql_mtx);
    return bytes;
}

uint64_t hf_heap_cached_entry(void)
{
    struct hf_call call;
    uint64_t bytes = __atomic_load_n(&hf_depot_bytes, __ATOMIC_RELAXED);
    if (!hf_enter(&call))
        return 0;
    tsdn_t *tsdn = tsd_tsdn(tsd_fetch());
    for (unsigned i = 0; i < narenas_total_get(); i++) {
        arena_t *arena = arena_get(tsdn, i, false);
        bytes += arena != NULL ? hf_arena_cached(tsdn, arena) : 0;
    }
    hf_leave(&call);
    return bytes;
}
