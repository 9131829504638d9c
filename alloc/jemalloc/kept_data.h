/*
 * Thread data kept for the next thread. Building a thread's data and tearing it down costs far more
 * than what a short-lived thread does with it: page faults for a cache of 28 KB, a flush, and a
 * purge of the arena when its last thread ends. So an ending thread leaves its data here, with its
 * arena and the blocks in its cache, and a starting thread takes it over. Part of fast_path.h.
 *
 * Owns the shelf, an array of slots that threads exchange atomically, without a lock. What is kept
 * is bounded: by the number of slots, and by the bytes that the caches hold together; a cache that
 * holds too much gives its largest blocks back first. When an arena's last living thread ends, and
 * such arenas have many unused pages, it gives them back, as jemalloc always does.
 * Data that nobody takes over for dirty_decay_ms is torn down by any thread that comes along
 * (hf_kept_age).
 *
 * jemalloc sees the data of a living thread: it stays listed, counted in statistics and in its
 * arena's number of threads, and a watch slows it down like any other. All functions are called
 * inside the gate, so a forked child finds complete data on the shelf.
 */
enum { HF_KEPT_MAX = 32 };
#define HF_KEPT_CACHE ((size_t)256 << 10) /* the most that one cache may hold */
#define HF_KEPT_BYTES ((size_t)2 << 20)   /* the most that all caches may hold, about */
/* In unused pages: the most that such arenas may have together, and what each may have anyhow. */
#define HF_KEPT_DIRTY   ((size_t)32 << 20)
#define HF_KEPT_DIRTY_1 ((size_t)1 << 20)

static struct hf_thread_data *hf_kept[HF_KEPT_MAX];
static size_t hf_kept_bytes;
static unsigned hf_kept_count; /* how many slots may be taken: tells when a look is worth while */
static unsigned hf_kept_in[MALLOCX_ARENA_LIMIT]; /* how many belong to an arena, about to be put
                                                    on the shelf or on it */

static uint64_t hf_kept_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* How many bytes the thread's cache holds, after the largest blocks in excess of `most` have gone.
 */
static size_t hf_kept_shrink(tsd_t *tsd, size_t most)
{
    tcache_t *tcache = tsd_tcachep_get(tsd);
    const szind_t bins = tcache_nbins_get(tsd_tcache_slowp_get(tsd));
    size_t bytes = 0;
    for (szind_t i = 0; i < bins; i++)
        if (!cache_bin_disabled(&tcache->bins[i]))
            bytes += sz_index2size(i) * hf_cached_blocks(tsd, i);
    for (szind_t i = bins; i-- > 0 && bytes > most;) {
        cache_bin_t *bin = &tcache->bins[i];
        if (cache_bin_disabled(bin))
            continue;
        bytes -= sz_index2size(i) * hf_cached_blocks(tsd, i);
        hf_top_down(tsd, tcache, i);
        if (i < SC_NBINS)
            tcache_bin_flush_small(tsd, tcache, bin, i, 0);
        else
            tcache_bin_flush_large(tsd, tcache, bin, i, 0);
    }
    return bytes;
}

static void hf_kept_count_in(struct hf_thread_data *data)
{
    __atomic_add_fetch(&hf_kept_bytes, data->kept_bytes, __ATOMIC_RELAXED);
    __atomic_add_fetch(&hf_kept_count, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&hf_kept_in[arena_ind_get(tsd_arena_get(&data->tsd))], 1, __ATOMIC_SEQ_CST);
}

static void hf_kept_count_out(struct hf_thread_data *data)
{
    __atomic_sub_fetch(&hf_kept_bytes, data->kept_bytes, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&hf_kept_count, 1, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&hf_kept_in[arena_ind_get(tsd_arena_get(&data->tsd))], 1, __ATOMIC_SEQ_CST);
}

/* Takes the data out of a slot; NULL if there is none. */
static struct hf_thread_data *hf_kept_remove(unsigned slot)
{
    if (__atomic_load_n(&hf_kept[slot], __ATOMIC_RELAXED) == NULL)
        return NULL;
    struct hf_thread_data *data = __atomic_exchange_n(&hf_kept[slot], NULL, __ATOMIC_ACQUIRE);
    if (data != NULL)
        hf_kept_count_out(data);
    return data;
}

/* An arena's unused bytes if kept data, and no living thread, uses it: nobody else would give them
 * back in time. Of threads that end together, the last one counted sees all of them. */
static size_t hf_kept_dirty(arena_t *arena)
{
    unsigned kept = __atomic_load_n(&hf_kept_in[arena_ind_get(arena)], __ATOMIC_SEQ_CST);
    if (kept == 0 || kept < arena_nthreads_get(arena, false))
        return 0;
    return ecache_npages_get(&arena->pa_shard.pac.ecache_dirty) << LG_PAGE;
}

static void hf_kept_purge(tsd_t *tsd)
{
    size_t all = 0;
    if (hf_kept_dirty(tsd_arena_get(tsd)) <= HF_KEPT_DIRTY_1)
        return;
    for (unsigned i = 0; i < narenas_total_get(); i++) {
        arena_t *arena = arena_get(tsd_tsdn(tsd), i, false);
        all += arena != NULL ? hf_kept_dirty(arena) : 0;
    }
    if (all > HF_KEPT_DIRTY)
        arena_decay(tsd_tsdn(tsd), tsd_arena_get(tsd), false, true);
}

/* Whether the data is fit for another thread; if so, counts it as kept. The caller's slot holds it.
 */
static bool hf_kept_prepare(tsd_t *tsd)
{
    if (opt_dirty_decay_ms <= 0 || hf_thread_no_key || !tsd_nominal(tsd) ||
        !tcache_available(tsd) || tsd_reentrancy_level_get(tsd) != 0 || tsd_arena_get(tsd) == NULL)
        return false;
    size_t held = __atomic_load_n(&hf_kept_bytes, __ATOMIC_RELAXED);
    size_t left = held < HF_KEPT_BYTES ? HF_KEPT_BYTES - held : 0;
    size_t bytes = hf_kept_shrink(tsd, left < HF_KEPT_CACHE ? left : HF_KEPT_CACHE);
    ((struct hf_thread_data *)tsd)->kept_bytes = bytes;
    ((struct hf_thread_data *)tsd)->kept_since = hf_kept_now();
    hf_kept_count_in((struct hf_thread_data *)tsd);
    hf_kept_purge(tsd);
    return true;
}

/* Puts counted data, which no slot holds any more, on the shelf; false if that is full. */
static bool hf_kept_put(struct hf_thread_data *data)
{
    for (unsigned i = 0; i < HF_KEPT_MAX; i++) {
        struct hf_thread_data *none = NULL;
        if (__atomic_load_n(&hf_kept[i], __ATOMIC_RELAXED) == NULL &&
            __atomic_compare_exchange_n(&hf_kept[i], &none, data, false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED))
            return true;
    }
    hf_kept_count_out(data);
    return false;
}

static struct hf_thread_data *hf_kept_take(void)
{
    if (__atomic_load_n(&hf_kept_count, __ATOMIC_RELAXED) == 0)
        return NULL;
    for (unsigned i = 0; i < HF_KEPT_MAX; i++) {
        struct hf_thread_data *data = hf_kept_remove(i);
        if (data != NULL)
            return data;
    }
    return NULL;
}

/* Tears down what has been kept for `age` milliseconds or longer. */
static void hf_kept_release(uint64_t age)
{
    for (unsigned i = 0; i < HF_KEPT_MAX; i++) {
        struct hf_thread_data *data = hf_kept_remove(i);
        if (data == NULL)
            continue;
        if (hf_kept_now() - data->kept_since < age) {
            hf_kept_count_in(data);
            if (hf_kept_put(data))
                continue;
        }
        hf_thread_clean_up(&data->tsd);
    }
}

/* Called in slow paths; looks every now and then. */
JEMALLOC_ALWAYS_INLINE void hf_kept_age(void)
{
    enum { LOOKS_EVERY = 256 };
    if (likely(__atomic_load_n(&hf_kept_count, __ATOMIC_RELAXED) == 0))
        return;
    tsd_t *tsd = hf_thread_current();
    if (tsd != NULL && tsd != &hf_thread_emergency &&
        ++((struct hf_thread_data *)tsd)->slow_calls % LOOKS_EVERY == 0)
        hf_kept_release((uint64_t)opt_dirty_decay_ms);
}

/* In a forked child, where jemalloc has forgotten the data of all threads but the calling one:
 * enters the kept ones again. */
static void hf_kept_reset(tsd_t *own)
{
    tsdn_t *tsdn = tsd_tsdn(own);
    for (unsigned i = 0; i < HF_KEPT_MAX; i++) {
        if (hf_kept[i] == NULL)
            continue;
        tsd_t *tsd = &hf_kept[i]->tsd;
        tcache_slow_t *slow = tsd_tcache_slowp_get_unsafe(tsd);
        arena_t *arena = slow->arena;
        arena_nthreads_inc(tsd_arena_get(tsd), false);
        if (tsd_iarena_get(tsd) != NULL)
            arena_nthreads_inc(tsd_iarena_get(tsd), true);
        slow->arena = NULL;
        tcache_arena_associate(tsdn, slow, tsd_tcachep_get_unsafe(tsd), arena);
        tsd_atomic_store(&tsd->state, tsd_state_purgatory, ATOMIC_RELAXED);
        tsd_state_set(tsd, tsd_state_nominal);
        tsd_slow_update(tsd);
    }
}
