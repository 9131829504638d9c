/*
 * Grounds: arenas that manage addresses which nobody touches. Part of fast_path.h, which includes
 * this file, like it inside jemalloc.c. seam.h describes them for their users.
 *
 * jemalloc keeps all its books outside of the memory that it manages, so it can just as well manage
 * numbers. A ground's addresses lie in the region, where the page map covers them, but they are
 * never accessible, and no user ever sees one: alloc/space/ translates them into the addresses of
 * real memory.
 *
 * Blocks of at most HF_GROUND_CACHED bytes have jemalloc's size classes and go through a cache of
 * the thread's own. Larger ones have the size that was asked for, in whole pages: they come from
 * the retained extents, where one that lacks the least memory is taken (homefree.patch), and freed
 * ones wait in `freed` for a request of exactly their size, because programs that use such memory
 * ask for the same sizes again and again.
 *
 * Owns the grounds, which are never destroyed, and the threads' caches of them. A ground's lock
 * guards its `freed` and is taken inside the gate, before all of jemalloc's locks.
 */

enum {
    HF_FREED_LISTS = 64,
    HF_FREED_MAX = 512,
    HF_GROUND_TRIES = 15, /* of two seconds */
    HF_FIT_SCAN = 512     /* extents that are compared */
};

struct hf_ground {
    extent_hooks_t hooks; /* first: jemalloc passes a pointer to it */
    void *(*grow)(void *space, size_t size);
    size_t (*lacks)(void *space, const void *at, size_t size, size_t most);
    void *space;
    arena_t *arena;
    unsigned index; /* the arena's */
    pthread_mutex_t lock;
    edata_list_active_t freed[HF_FREED_LISTS];
    size_t freed_count;
    struct hf_ground *next;
};

static struct hf_ground *hf_grounds;
/* Of an attempt that failed, for the next one: neither base memory nor an arena's number can be
 * given back. Guarded by jemalloc's lock of arenas. */
static struct hf_ground *hf_ground_spare;

/* What grounds have must not be lost, so a fork is waited for longer than elsewhere. False only in
 * a thread that another thread's fork waits for. */
static bool hf_ground_enter(struct hf_call *call)
{
    for (int tries = 0; tries < HF_GROUND_TRIES; tries++) {
        if (likely(hf_enter_patiently(call)))
            return true;
        hf_gate_wait_long();
    }
    return false;
}

/* ---- hooks ---- */

static void *hf_ground_hook_alloc(extent_hooks_t *hooks, void *wanted, size_t size,
                                  size_t alignment, bool *zero, bool *commit, unsigned arena)
{
    struct hf_ground *ground = (struct hf_ground *)hooks;
    (void)arena;
    if (wanted != NULL || alignment > HF_GROUND_GRANULE)
        return NULL;
    void *at = ground->grow(ground->space, ALIGNMENT_CEILING(size, HF_GROUND_GRANULE));
    if (at != NULL) {
        *zero = false;
        *commit = true;
    }
    return at;
}

static bool hf_ground_hook_split(extent_hooks_t *hooks, void *at, size_t size, size_t first,
                                 size_t second, bool committed, unsigned arena)
{
    (void)hooks, (void)at, (void)size, (void)first, (void)second, (void)committed, (void)arena;
    return false;
}

static bool hf_ground_hook_merge(extent_hooks_t *hooks, void *first, size_t first_size,
                                 void *second, size_t second_size, bool committed, unsigned arena)
{
    (void)hooks, (void)first, (void)first_size, (void)second, (void)second_size, (void)committed,
        (void)arena;
    return false;
}

/* For homefree.patch: jemalloc's own tests have arenas with other hooks. */
bool hf_ground_is_one(ehooks_t *ehooks)
{
    return ehooks_get_extent_hooks_ptr(ehooks)->alloc == hf_ground_hook_alloc;
}

/*
 * For homefree.patch: of the extents that fit, those that lack the least, and of these the
 * smallest, at the lowest address.
 */
edata_t *hf_ground_fit(ehooks_t *ehooks, eset_t *eset, size_t size, size_t alignment)
{
    const struct hf_ground *ground = (const struct hf_ground *)ehooks_get_extent_hooks_ptr(ehooks);
    edata_t *best = NULL, *extent;
    size_t least = SIZE_MAX;
    int seen = 0;
    ql_foreach(extent, &eset->lru.head, ql_link_inactive)
    {
        uintptr_t start = (uintptr_t)edata_base_get(extent);
        size_t room = edata_size_get(extent);
        size_t lead = ALIGNMENT_CEILING(start, alignment) - start;
        if (++seen > HF_FIT_SCAN)
            break;
        if (room < size || room - size < lead)
            continue;
        size_t lacks = ground->lacks(ground->space, (void *)(start + lead), size, least);
        if (lacks > least ||
            (lacks == least && best != NULL &&
             (room > edata_size_get(best) ||
              (room == edata_size_get(best) && start > (uintptr_t)edata_base_get(best)))))
            continue;
        best = extent;
        least = lacks;
    }
    return best != NULL || seen <= HF_FIT_SCAN
               ? best
               : eset_fit(eset, size, alignment, false, SC_PTR_BITS);
}

/* ---- tables for the fast paths ---- */

/* Whether a block of this class is a small one: large ones are longer (hf_ground_take_pages()). */
JEMALLOC_ALWAYS_INLINE bool hf_ground_is_small(szind_t class)
{
    return class <= sz_size2index_compute(HF_GROUND_CACHED);
}

/*
 * By size in units of HF_GROUND_ALIGNMENT, less one: where a cache has the bin. By class: what
 * finds the starts of blocks; 0 for classes that no small block of a ground has. Written while the
 * heap starts.
 */
static uint16_t hf_ground_bins[HF_GROUND_CACHED / HF_GROUND_ALIGNMENT];
static uint64_t hf_ground_starts[SC_NSIZES + 1];

/* In place of a cache where a thread has none: its bins are empty, and have given out nothing. */
tcache_t hf_space_no_cache;
static void *hf_space_no_block[2];

static void hf_ground_write_tables(void)
{
    for (szind_t class = 0; hf_ground_is_small(class); class ++) {
        size_t size = sz_index2size(class);
        if (size % HF_GROUND_ALIGNMENT != 0)
            continue;
        /* offset * (2^64 / size, rounded up) is less than that factor, modulo 2^64, if size divides
         * offset. Other than a slab, a large block has one start. */
        hf_ground_starts[class] = class < SC_NBINS ? UINT64_MAX / size + 1 : 1;
    }
    for (szind_t class = 0; hf_ground_is_small(class); class ++) {
        cache_bin_t *bin = &hf_space_no_cache.bins[class];
        bin->low_bits_low_water = bin->low_bits_full = bin->low_bits_empty =
            (uint16_t)(uintptr_t)&hf_space_no_block[1];
        bin->stack_head = &hf_space_no_block[1];
    }
    for (size_t i = 0; i < HF_GROUND_CACHED / HF_GROUND_ALIGNMENT; i++) {
        szind_t class = sz_size2index_compute((i + 1) * HF_GROUND_ALIGNMENT);
        size_t bin = offsetof(tcache_t, bins) + class * sizeof(cache_bin_t);
        hf_ground_bins[i] = (uint16_t)bin;
    }
}

/* ---- opening ---- */

struct hf_ground *hf_ground_open_entry(void *(*grow)(void *, size_t),
                                       size_t (*lacks)(void *, const void *, size_t, size_t),
                                       void *space) HF_EXPORT_AS("hf_ground_open");
void *hf_ground_take_entry(struct hf_ground *ground, size_t size) HF_EXPORT_AS("hf_ground_take");
bool hf_ground_each_cached_entry(const struct hf_ground *ground, size_t size,
                                 bool (*visit)(void *context, void *at, size_t size), void *context)
    HF_EXPORT_AS("hf_ground_each_cached");
bool hf_ground_give_entry(struct hf_ground *ground, void *at) HF_EXPORT_AS("hf_ground_give");
void *hf_ground_take_pages_entry(struct hf_ground *ground, size_t size, size_t alignment)
    HF_EXPORT_AS("hf_ground_take_pages");
void hf_ground_give_pages_entry(struct hf_ground *ground, void *at, bool keep)
    HF_EXPORT_AS("hf_ground_give_pages");
bool hf_ground_add_entry(struct hf_ground *ground, size_t size) HF_EXPORT_AS("hf_ground_add");
void hf_ground_retire_entry(void *at) HF_EXPORT_AS("hf_ground_retire");
void hf_ground_empty_entry(struct hf_ground *ground) HF_EXPORT_AS("hf_ground_empty");
void hf_ground_each_free_entry(struct hf_ground *ground,
                               void (*visit)(void *context, void *at, size_t size), void *context)
    HF_EXPORT_AS("hf_ground_each_free");
struct hf_ground_block hf_ground_find_entry(const void *at) HF_EXPORT_AS("hf_ground_find");
uint64_t hf_ground_small_entry(struct hf_ground *ground) HF_EXPORT_AS("hf_ground_small");
bool hf_ground_has_small_entry(struct hf_ground *ground) HF_EXPORT_AS("hf_ground_has_small");
unsigned hf_ground_arena_entry(const struct hf_ground *ground) HF_EXPORT_AS("hf_ground_arena");
void hf_ground_totals_entry(uint64_t *allocated, uint64_t *active) HF_EXPORT_AS("hf_ground_totals");

/* With an arena, but not in the list yet. */
static struct hf_ground *hf_ground_make(tsd_t *tsd, void *(*grow)(void *, size_t),
                                        size_t (*lacks)(void *, const void *, size_t, size_t),
                                        void *space)
{
    tsdn_t *tsdn = tsd_tsdn(tsd);
    malloc_mutex_lock(tsdn, &arenas_lock);
    struct hf_ground *ground = hf_ground_spare;
    hf_ground_spare = NULL;
    if (ground == NULL) {
        ground = base_alloc(tsdn, b0get(), sizeof *ground, CACHELINE);
        if (ground != NULL)
            *ground = (struct hf_ground){.index = narenas_total_get()};
    }
    if (ground != NULL) {
        ground->hooks = (extent_hooks_t){.alloc = hf_ground_hook_alloc,
                                         .split = hf_ground_hook_split,
                                         .merge = hf_ground_hook_merge};
        ground->grow = grow;
        ground->lacks = lacks;
        ground->space = space;
        arena_config_t config = {.extent_hooks = &ground->hooks, .metadata_use_hooks = false};
        /* NULL if there are too many; without memory for it, the number is taken all the same. */
        ground->arena = arena_init_locked(tsdn, ground->index, &config);
        if (ground->arena == NULL) {
            hf_ground_spare = ground;
            ground = NULL;
        }
    }
    malloc_mutex_unlock(tsdn, &arenas_lock);
    if (ground != NULL) {
        pthread_mutex_init(&ground->lock, NULL);
        for (int i = 0; i < HF_FREED_LISTS; i++)
            edata_list_active_init(&ground->freed[i]);
    }
    return ground;
}

struct hf_ground *hf_ground_open_entry(void *(*grow)(void *, size_t),
                                       size_t (*lacks)(void *, const void *, size_t, size_t),
                                       void *space)
{
    struct hf_call call;
    if (!hf_ground_enter(&call))
        return NULL;
    tsd_t *tsd = tsd_fetch();
    struct hf_ground *ground = NULL;
    if (tsd_nominal(tsd))
        ground = hf_ground_make(tsd, grow, lacks, space);
    if (ground != NULL) {
        size_t limit = HF_GROUND_GRANULE;
        (void)arena_decay_ms_set(tsd_tsdn(tsd), ground->arena, extent_state_dirty, 0);
        (void)arena_decay_ms_set(tsd_tsdn(tsd), ground->arena, extent_state_muzzy, 0);
        (void)arena_retain_grow_limit_get_set(tsd, ground->arena, NULL, &limit);
        struct hf_ground *first = __atomic_load_n(&hf_grounds, __ATOMIC_RELAXED);
        do
            ground->next = first;
        while (!__atomic_compare_exchange_n(&hf_grounds, &first, ground, true, __ATOMIC_RELEASE,
                                            __ATOMIC_RELAXED));
    }
    hf_leave(&call);
    return ground;
}

/* ---- small blocks ---- */

/* Whether caches have a bin for each small block, as the fast paths expect: not if the option
 * tcache_max is less. */
static bool hf_ground_caches_all(void)
{
    return !hf_ground_is_small(global_do_not_change_tcache_nbins);
}

JEMALLOC_ALWAYS_INLINE struct hf_ground_cache *hf_ground_cache_of(tsd_t *tsd, unsigned arena)
{
    return &((struct hf_thread_data *)tsd)->grounds[arena % HF_GROUND_CACHES];
}

JEMALLOC_ALWAYS_INLINE tcache_t **hf_space_caches(tsd_t *tsd)
{
    return tsd_hf_space_cachesp_get_unsafe(tsd)->at;
}

static void hf_ground_drop_cache(tsd_t *tsd, struct hf_ground_cache *cache)
{
    if (cache->tcache == NULL)
        return;
    for (size_t i = 0; i < HF_SPACES_MAX; i++)
        if (hf_space_caches(tsd)[i] == cache->tcache)
            hf_space_caches(tsd)[i] = &hf_space_no_cache;
    tcaches_destroy(tsd, cache->number);
    cache->tcache = NULL;
}

/* The thread's cache of a ground; NULL if it can have none. Call inside the gate. */
static tcache_t *hf_ground_tcache(tsd_t *tsd, const struct hf_ground *ground)
{
    if (tsd == &hf_thread_emergency || !tsd_nominal(tsd) || tsd_reentrancy_level_get(tsd) > 0)
        return NULL;
    struct hf_ground_cache *cache = hf_ground_cache_of(tsd, ground->index);
    if (cache->tcache == NULL || cache->arena != ground->index) {
        hf_ground_drop_cache(tsd, cache); /* another ground has the place */
        unsigned number;
        if (tcaches_create(tsd, b0get(), &number))
            return NULL;
        cache->number = number;
        cache->tcache = tcaches[number].tcache;
        cache->arena = ground->index;
    }
    for (size_t i = 0; i < HF_SPACES_MAX && hf_ground_caches_all(); i++)
        if (__atomic_load_n(&hf_fast_spaces.at[i].ground, __ATOMIC_ACQUIRE) == ground)
            hf_space_caches(tsd)[i] = cache->tcache;
    return cache->tcache;
}

/* Gives an ending thread's caches back. Call inside the gate. */
static void hf_ground_end(tsd_t *tsd)
{
    for (unsigned i = 0; i < HF_GROUND_CACHES; i++)
        hf_ground_drop_cache(tsd, &((struct hf_thread_data *)tsd)->grounds[i]);
}

void *hf_ground_take_entry(struct hf_ground *ground, size_t size)
{
    struct hf_call call;
    if (!hf_ground_enter(&call))
        return NULL;
    tsd_t *tsd = tsd_fetch();
    tcache_t *tcache = hf_ground_tcache(tsd, ground);
    szind_t class = sz_size2index(size);
    void *at = NULL;
    bool found = false;
    if (class < SC_NBINS) {
        at = arena_malloc(tsd_tsdn(tsd), ground->arena, size, class, false, true, tcache, true);
    } else {
        /* jemalloc spreads such blocks over a page, by multiples of their alignment. */
        if (tcache != NULL)
            at = cache_bin_alloc(&tcache->bins[class], &found);
        if (at == NULL)
            at = large_palloc(tsd_tsdn(tsd), ground->arena, sz_index2size(class),
                              HF_GROUND_ALIGNMENT, false);
    }
    hf_leave(&call);
    return at;
}

bool hf_ground_each_cached_entry(const struct hf_ground *ground, size_t size,
                                 bool (*visit)(void *context, void *at, size_t size), void *context)
{
    tsd_t *tsd = hf_thread_current();
    szind_t class = sz_size2index(size);
    if (tsd == NULL || tsd == &hf_thread_emergency || class >= TCACHE_NBINS_MAX)
        return true;
    struct hf_ground_cache *cache = hf_ground_cache_of(tsd, ground->index);
    if (cache->arena != ground->index || cache->tcache == NULL)
        return true;
    cache_bin_t *bin = &cache->tcache->bins[class];
    cache_bin_sz_t count = cache_bin_ncached_get_local(bin);
    for (cache_bin_sz_t i = 0; i < count; i++)
        if (!visit(context, bin->stack_head[i], sz_index2size(class)))
            return false;
    return true;
}

/* Whether a small block of that ground starts there; `page` is the page map's word. */
JEMALLOC_ALWAYS_INLINE bool hf_ground_starts_at(uintptr_t page, uintptr_t at, unsigned arena)
{
    uint64_t starts = hf_ground_starts[page >> LG_VADDR];
    if (unlikely(starts == 0))
        return false;
    const edata_t *extent = rtree_leaf_elm_bits_decode(page).edata;
    size_t offset = at - (uintptr_t)edata_addr_get(extent);
    return edata_arena_ind_get(extent) == arena && offset * starts < starts;
}

JEMALLOC_ALWAYS_INLINE uintptr_t hf_ground_page(const void *at)
{
    return __atomic_load_n(&hf_page_map[(uintptr_t)at >> LG_PAGE], __ATOMIC_RELAXED);
}

/* Gives a cache a small block of its ground if it is one, was not given just before, and there is
 * room. */
JEMALLOC_ALWAYS_INLINE bool hf_ground_give_cached(tcache_t *tcache, unsigned arena, void *at)
{
    uintptr_t page = hf_ground_page(at);
    if (unlikely(!hf_ground_starts_at(page, (uintptr_t)at, arena)))
        return false;
    cache_bin_t *bin = &tcache->bins[page >> LG_VADDR];
    if (unlikely(*bin->stack_head == at) || !cache_bin_dalloc_easy(bin, at))
        return false;
    /* For hf_space_give(): the same block does not come next. */
    if (unlikely(bin->stack_head[-1] == at))
        bin->stack_head[-1] = NULL;
    return true;
}

bool hf_ground_give_entry(struct hf_ground *ground, void *at)
{
    struct hf_call call;
    if (tsd_fast(hf_thread_slot) && hf_ground_caches_all()) {
        struct hf_ground_cache *cache = hf_ground_cache_of(hf_thread_slot, ground->index);
        if (cache->tcache != NULL && cache->arena == ground->index &&
            hf_ground_give_cached(cache->tcache, ground->index, at))
            return true;
    }
    if (!hf_ground_enter(&call))
        return false;
    tsd_t *tsd = tsd_fetch();
    tcache_t *tcache = hf_ground_tcache(tsd, ground);
    szind_t class =
        (szind_t)(__atomic_load_n(&hf_page_map[(uintptr_t)at >> LG_PAGE], __ATOMIC_RELAXED) >>
                  LG_VADDR);
    tcache = class < TCACHE_NBINS_MAX ? tcache : NULL;
    bool twice = tcache != NULL && cache_bin_ncached_get_local(&tcache->bins[class]) > 0 &&
                 *tcache->bins[class].stack_head == at;
    if (!twice)
        arena_dalloc(tsd_tsdn(tsd), at, tcache, NULL, true);
    hf_leave(&call);
    return !twice;
}

/* ---- the fast paths of homefree/space.h ---- */

struct hf_fast_spaces hf_fast_spaces = {
    .at = {[0 ... HF_SPACES_MAX - 1] = {.stream = HF_FAST_NONE, .frees = HF_FAST_NONE}},
};

enum { HF_KIND_PINNED = 1, HF_KIND_DEVICE = 2 }; /* enum hf_space_kind */
_Static_assert(sizeof(hf_space_caches_t) == HF_SPACES_MAX * sizeof(tcache_t *), "homefree.patch");

int hf_space_alloc_entry(void **out, int kind, int device, size_t size, size_t alignment,
                         void *stream) HF_EXPORT_AS("hf_space_alloc")
    JEMALLOC_ATTR(visibility("default"));
int hf_space_free_entry(void *ptr, void *stream) HF_EXPORT_AS("hf_space_free")
    JEMALLOC_ATTR(visibility("default"));

/* These functions read what others may write with plain loads, which compilers fold into the
 * comparisons; atomic ones they do not. */
JEMALLOC_ALWAYS_INLINE bool hf_space_take(void **out, const struct hf_fast_space *space,
                                          tcache_t *tcache, size_t size)
{
    uint16_t place = hf_ground_bins[(size - 1) / HF_GROUND_ALIGNMENT];
    bool found;
    void *at = cache_bin_alloc_easy((cache_bin_t *)((uintptr_t)tcache + place), &found);
    if (unlikely(!found))
        return false;
    *out = (void *)((uintptr_t)at + space->delta);
    return true;
}

/* Like hf_malloc, without a call on the way. The slow path gets constants where they are known, so
 * that the registers are free. A closed space has a stream that no caller has. While somebody
 * watches, no thread is fast. */
int hf_space_alloc_entry(void **out, int kind, int device, size_t size, size_t alignment,
                         void *stream)
{
    const struct hf_fast_space *pinned = &hf_fast_spaces.at[0], *devices = &hf_fast_spaces.at[1];
    if (likely(out != NULL && size - 1 < HF_GROUND_CACHED)) {
        if (((size_t)((unsigned)kind - HF_KIND_DEVICE) | alignment) == 0) {
            size_t number = (unsigned)device;
            if (likely(number < HF_SPACES_MAX - 1 && stream == devices[number].stream) &&
                likely(tsd_fast(hf_thread_slot)) &&
                likely(hf_space_take(out, &devices[number],
                                     (hf_space_caches(hf_thread_slot) + 1)[number], size)))
                return 0;
            return hf_space_alloc_slow(out, HF_KIND_DEVICE, device, size, 0, stream);
        }
        if (likely(((size_t)((unsigned)kind - HF_KIND_PINNED) | alignment) == 0)) {
            if (likely(pinned->stream == NULL) && likely(tsd_fast(hf_thread_slot)) &&
                likely(hf_space_take(out, pinned, hf_space_caches(hf_thread_slot)[0], size)))
                return 0;
            return hf_space_alloc_slow(out, HF_KIND_PINNED, device, size, 0, stream);
        }
    }
    return hf_space_alloc_slow(out, kind, device, size, alignment, stream);
}

JEMALLOC_ALWAYS_INLINE bool hf_space_covers(size_t number, const void *ptr)
{
    const struct hf_fast_space *space = &hf_fast_spaces.at[number];
    return (uintptr_t)ptr - space->base < space->size;
}

static JEMALLOC_NOINLINE int hf_space_give_any(void *ptr, void *stream,
                                               const struct hf_fast_space *space, tcache_t *tcache)
{
    void *at = (void *)((uintptr_t)ptr - space->delta);
    return likely(tcache != &hf_space_no_cache && hf_ground_give_cached(tcache, space->arena, at))
               ? 0
               : hf_space_free_slow(ptr, stream);
}

/*
 * If the cache gave this very block out last, that needs no look at the block's extent: what a bin
 * gives out stays where it was until something is put there. (So may a block that was freed
 * elsewhere meanwhile: freeing a block twice is found when the cache is emptied.)
 *
 * In a thread without a cache, what is read here may be incomplete: its cache comes later.
 */
JEMALLOC_ALWAYS_INLINE int hf_space_give(size_t number, void *ptr, void *stream)
{
    const struct hf_fast_space *space = &hf_fast_spaces.at[number];
    tcache_t *tcache = hf_space_caches(hf_thread_slot)[number];
    if (unlikely(stream != space->frees || !tsd_fast(hf_thread_slot)))
        return hf_space_free_slow(ptr, stream);
    void *at = (void *)((uintptr_t)ptr - space->delta);
    szind_t class = (szind_t)(hf_ground_page(at) >> LG_VADDR);
    if (likely(hf_ground_is_small(class))) {
        cache_bin_t *bin = &tcache->bins[class];
        if (likely(bin->stack_head[-1] == at) && likely(!cache_bin_full(bin))) {
            bin->stack_head--;
            return 0;
        }
    }
    return hf_space_give_any(ptr, stream, space, tcache);
}

static JEMALLOC_NOINLINE int hf_space_free_of_others(void *ptr, void *stream)
{
    for (size_t number = 2; number < hf_fast_spaces.count; number++)
        if (hf_space_covers(number, ptr))
            return hf_space_give(number, ptr, stream);
    return hf_space_free_slow(ptr, stream);
}

int hf_space_free_entry(void *ptr, void *stream)
{
    if (hf_space_covers(0, ptr))
        return hf_space_give(0, ptr, stream);
    if (likely(hf_space_covers(1, ptr)))
        return hf_space_give(1, ptr, stream);
    return hf_space_free_of_others(ptr, stream);
}

#include "ground_large.h"

/* ---- looking ---- */

unsigned hf_ground_arena_entry(const struct hf_ground *ground)
{
    return ground->index;
}

struct hf_ground_block hf_ground_find_entry(const void *at)
{
    struct hf_ground_block block = {.at = NULL};
    uintptr_t address = (uintptr_t)at;
    edata_t *extent = hf_extent_of(hf_thread_current(), address);
    szind_t class = extent != NULL ? edata_szind_get_maybe_invalid(extent) : SC_NSIZES;
    if (class >= SC_NSIZES)
        return block;
    uintptr_t start = (uintptr_t)edata_addr_get(extent);
    block.size = edata_size_get(extent);
    block.small = hf_ground_is_small(class);
    block.arena = edata_arena_ind_get(extent);
    if (edata_slab_get(extent)) {
        const bin_info_t *info = &bin_infos[class];
        size_t index = (address - start) / info->reg_size;
        if (index >= info->nregs ||
            !bitmap_get(edata_slab_data_get(extent)->bitmap, &info->bitmap_info, index))
            return block;
        start += index * info->reg_size;
        block.size = info->reg_size;
    } else if (block.small) {
        block.size = sz_index2size(class);
    }
    if (address - start < block.size)
        block.at = (void *)start;
    return block;
}

/* Call inside the gate. */
static uint64_t hf_ground_count(tsdn_t *tsdn, arena_t *arena)
{
    uint64_t bytes = 0;
    for (szind_t i = 0; i < SC_NBINS; i++)
        for (unsigned shard = 0; shard < bin_infos[i].n_shards; shard++) {
            bin_t *bin = arena_get_bin(arena, i, shard);
            malloc_mutex_lock(tsdn, &bin->lock);
            bytes += bin->stats.curregs * bin_infos[i].reg_size;
            malloc_mutex_unlock(tsdn, &bin->lock);
        }
    LOCKEDINT_MTX_LOCK(tsdn, arena->stats.mtx);
    for (szind_t i = 0; i < SC_NSIZES - SC_NBINS; i++) {
        uint64_t taken =
            locked_read_u64(tsdn, LOCKEDINT_MTX(arena->stats.mtx), &arena->stats.lstats[i].nmalloc);
        uint64_t given =
            locked_read_u64(tsdn, LOCKEDINT_MTX(arena->stats.mtx), &arena->stats.lstats[i].ndalloc);
        bytes += (taken - given) * sz_index2size(SC_NBINS + i);
    }
    LOCKEDINT_MTX_UNLOCK(tsdn, arena->stats.mtx);
    return bytes;
}

uint64_t hf_ground_small_entry(struct hf_ground *ground)
{
    struct hf_call call;
    if (!hf_ground_enter(&call))
        return 0;
    uint64_t bytes = hf_ground_count(tsd_tsdn(tsd_fetch()), ground->arena);
    hf_leave(&call);
    return bytes;
}

bool hf_ground_has_small_entry(struct hf_ground *ground)
{
    struct hf_call call;
    hf_ground_empty_entry(ground);
    if (!hf_ground_enter(&call))
        return true;
    bool any = hf_ground_count(tsd_tsdn(tsd_fetch()), ground->arena) != 0;
    hf_leave(&call);
    return any;
}

void hf_ground_totals_entry(uint64_t *allocated, uint64_t *active)
{
    struct hf_ground *ground = __atomic_load_n(&hf_grounds, __ATOMIC_ACQUIRE);
    *allocated = *active = 0;
    for (; ground != NULL; ground = ground->next) {
        *allocated += hf_ground_small_entry(ground);
        *active += (uint64_t)atomic_load_zu(&ground->arena->pa_shard.nactive, ATOMIC_RELAXED)
                   << LG_PAGE;
    }
}

/* For a forked child. */
static void hf_ground_reset(void)
{
    for (struct hf_ground *ground = hf_grounds; ground != NULL; ground = ground->next)
        pthread_mutex_init(&ground->lock, NULL);
}
