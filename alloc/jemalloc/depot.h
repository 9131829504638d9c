/*
 * The depot: blocks on their way from a thread's cache that is full to one that is empty. A thread
 * that frees more than it allocates, as a consumer does, would give each block back to the slab
 * that it came from, under that slab's lock, and a producer would take it from there again. The
 * depot passes whole batches by copying an array of pointers, and marks the blocks, so that a
 * second free of one is found. Part of fast_path.h.
 *
 * Owns the depots, one a size class, with a flag each that keeps others out. Nobody waits for the
 * flag: a thread that finds it set does as if there were no depot. So there is nothing to unlock in
 * a forked child either; all functions are called inside the gate.
 *
 * What depots hold is bounded, for each class and for all together. Blocks that nobody came for
 * between two looks at a class go home (hf_depot_look). jemalloc takes them for live ones
 * meanwhile, as those in caches; hf_heap_cached() counts them.
 */
enum { HF_DEPOT_BLOCKS = 16384, HF_DEPOT_CLASSES = SC_NBINS + 5, HF_DEPOT_BATCH = 32 };
#define HF_DEPOT_CLASS ((size_t)1 << 20) /* the most that one depot may hold, in bytes */
#define HF_DEPOT_BYTES ((size_t)4 << 20) /* the most that all may hold, about */

static struct hf_depot {
    bool busy;
    uint32_t count;
    uint32_t low;  /* the least that it held since the last look */
    void **blocks; /* hf_depot_room() of them; NULL until the class first needs them */
} __attribute__((aligned(64))) hf_depots[HF_DEPOT_CLASSES];
static size_t hf_depot_bytes;

static bool hf_depot_enter(struct hf_depot *depot)
{
    return !__atomic_load_n(&depot->busy, __ATOMIC_RELAXED) &&
           !__atomic_exchange_n(&depot->busy, true, __ATOMIC_ACQUIRE);
}

static void hf_depot_leave(struct hf_depot *depot)
{
    __atomic_store_n(&depot->busy, false, __ATOMIC_RELEASE);
}

/* How many blocks a class may keep. */
static uint32_t hf_depot_room(szind_t class)
{
    const size_t fit = HF_DEPOT_CLASS / sz_index2size(class);
    return fit < HF_DEPOT_BLOCKS ? (uint32_t)fit : HF_DEPOT_BLOCKS;
}

/* ---- blocks that were freed twice ---- */

/*
 * A slab's bitmap tells blocks that are free from blocks that are live or cached. So a depot marks
 * what it holds in the blocks themselves: no correct program has the mark there, which is a secret,
 * and goes when the block does. hf_corrupted_cached() ends the process.
 */
static uintptr_t hf_depot_secret;

/* AT_RANDOM's 16 bytes also guard stacks and pointers of libc's, so they cannot be told from it. */
static void hf_depot_start(void)
{
    uint64_t random[2] = {0, 0};
    const void *given = (const void *)getauxval(AT_RANDOM);
    if (given != NULL)
        memcpy(random, given, sizeof random);
    random[0] ^= (uintptr_t)&hf_depots;
    for (int i = 0; i < 4; i++) {
        random[0] = (random[0] ^ random[0] >> 31 ^ random[1]) * UINT64_C(0x9e3779b97f4a7c15);
        random[1] = (random[1] ^ random[1] >> 29 ^ random[0]) * UINT64_C(0xd6e8feb86659fd93);
    }
    hf_depot_secret = (uintptr_t)(random[0] ^ random[1]);
}

/*
 * Marks blocks that a thread has freed into its cache, unseen. A block of the class must begin at
 * each address; the slab's bitmap is not asked, that happens when blocks go home. Most blocks lie
 * in the slab of the one before, which saves looking theirs up.
 */
static JEMALLOC_NOINLINE void hf_depot_mark(szind_t class, void *const *blocks, size_t count)
{
    const bool small = class < SC_NBINS;
    const size_t size = small ? bin_infos[class].reg_size : sz_index2size(class);
    const size_t slab = small ? size * bin_infos[class].nregs : 1;
    /* n is a multiple of size if n * inverse, modulo 2**64, is below it (n, size < 2**32; Lemire,
     * Kaser, Kurz: Faster remainder by direct computation, 2019). */
    const uint64_t inverse = UINT64_MAX / size + 1;
    const uintptr_t secret = hf_depot_secret;
    uintptr_t first = UINTPTR_MAX;
    for (size_t i = 0; i < count; i++) {
        uintptr_t *const block = blocks[i];
        const uintptr_t at = (uintptr_t)block;
        if (unlikely(at - first >= slab)) {
            const rtree_contents_t page = rtree_leaf_elm_bits_decode(hf_page_word(at));
            if (unlikely(page.edata == NULL || page.metadata.szind != class))
                hf_corrupted_cached(block);
            first = (uintptr_t)edata_addr_get(page.edata);
            if (unlikely(at - first >= slab)) /* behind the slab's last block */
                hf_corrupted_cached(block);
        }
        const uint64_t offset = at - first;
        const uintptr_t mark = secret ^ at;
        if (unlikely(offset * inverse >= inverse) || unlikely(*block == mark))
            hf_corrupted_cached(block);
        *block = mark;
    }
}

static void hf_depot_unmark(void *const *blocks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        *(uintptr_t *)blocks[i] = 0;
}

/* ---- in and out ---- */

/* Takes up to `most` blocks out of a depot that the caller is in. */
static uint32_t hf_depot_take(struct hf_depot *depot, szind_t class, void **out, uint32_t most)
{
    const uint32_t count = depot->count < most ? depot->count : most;
    depot->count -= count;
    if (depot->low > depot->count)
        depot->low = depot->count;
    memcpy(out, &depot->blocks[depot->count], count * sizeof *out);
    __atomic_sub_fetch(&hf_depot_bytes, count * sz_index2size(class), __ATOMIC_RELAXED);
    return count;
}

/* Gives a depot that the caller is in its array; false if there is no memory. */
static bool hf_depot_open(tsd_t *tsd, struct hf_depot *depot, szind_t class)
{
    if (depot->blocks == NULL)
        depot->blocks = base_alloc(tsd_tsdn(tsd), b0get(),
                                   hf_depot_room(class) * sizeof *depot->blocks, CACHELINE);
    return depot->blocks != NULL;
}

/* Makes room in a full cache, whose older half goes into the depot if that has room. */
static void hf_depot_put(tsd_t *tsd, szind_t class)
{
    if (class >= HF_DEPOT_CLASSES)
        return;
    cache_bin_t *bin = &tsd_tcachep_get(tsd)->bins[class];
    struct hf_depot *depot = &hf_depots[class];
    if (cache_bin_disabled(bin) || !cache_bin_full(bin) || cache_bin_nstashed_get_local(bin) != 0)
        return;
    const cache_bin_sz_t count = cache_bin_ncached_get_local(bin) / 2;
    const size_t bytes = count * sz_index2size(class);
    if (__atomic_load_n(&depot->count, __ATOMIC_RELAXED) + count > hf_depot_room(class) ||
        __atomic_load_n(&hf_depot_bytes, __ATOMIC_RELAXED) + bytes > HF_DEPOT_BYTES ||
        !hf_depot_enter(depot))
        return;
    if (depot->count + count <= hf_depot_room(class) && hf_depot_open(tsd, depot, class)) {
        CACHE_BIN_PTR_ARRAY_DECLARE(blocks, count);
        cache_bin_init_ptr_array_for_flush(bin, &blocks, count);
        hf_depot_mark(class, blocks.ptr, count);
        memcpy(&depot->blocks[depot->count], blocks.ptr, count * sizeof *blocks.ptr);
        depot->count += count;
        cache_bin_finish_flush(bin, &blocks, count);
        __atomic_add_fetch(&hf_depot_bytes, bytes, __ATOMIC_RELAXED);
    }
    hf_depot_leave(depot);
}

/* Fills an empty cache from the depot, if there is something in it. */
static void hf_depot_fill(tsd_t *tsd, szind_t class)
{
    if (class >= HF_DEPOT_CLASSES ||
        __atomic_load_n(&hf_depots[class].count, __ATOMIC_RELAXED) == 0)
        return;
    struct hf_depot *depot = &hf_depots[class];
    cache_bin_t *bin = &tsd_tcachep_get(tsd)->bins[class];
    if (cache_bin_disabled(bin) || cache_bin_ncached_get_local(bin) != 0 ||
        cache_bin_nstashed_get_local(bin) != 0 || !hf_depot_enter(depot))
        return;
    const cache_bin_sz_t most = cache_bin_ncached_max_get(bin) / 2;
    CACHE_BIN_PTR_ARRAY_DECLARE(blocks, most);
    cache_bin_init_ptr_array_for_fill(bin, &blocks, most);
    const uint32_t count = hf_depot_take(depot, class, blocks.ptr, most);
    hf_depot_leave(depot);
    hf_depot_unmark(blocks.ptr, count);
    cache_bin_finish_fill(bin, &blocks, (cache_bin_sz_t)count);
    if (class < SC_NBINS)
        tsd_tcache_slowp_get(tsd)->bin_refilled[class] = true;
}

/* Sends up to `count` blocks of a class home. */
static void hf_depot_empty(tsd_t *tsd, szind_t class, uint32_t count)
{
    void *blocks[HF_DEPOT_BATCH];
    arena_t *arena = tsd_tcache_slowp_get(tsd)->arena; /* for statistics; the thread's own is NULL
                                                          before it first needs one */
    while (count > 0 && hf_depot_enter(&hf_depots[class])) {
        const uint32_t most = count < HF_DEPOT_BATCH ? count : HF_DEPOT_BATCH;
        const uint32_t taken = hf_depot_take(&hf_depots[class], class, blocks, most);
        hf_depot_leave(&hf_depots[class]);
        if (taken == 0)
            return;
        hf_depot_unmark(blocks, taken);
        cache_bin_ptr_array_t array = {.n = (cache_bin_sz_t)taken, .ptr = blocks};
        arena_ptr_array_flush(tsd, class, &array, taken, class < SC_NBINS, arena,
                              (cache_bin_stats_t){0});
        count -= taken;
    }
}

/* Sends three quarters of what nobody came for since the last look home. */
static void hf_depot_look(tsd_t *tsd, szind_t class)
{
    if (class >= HF_DEPOT_CLASSES ||
        __atomic_load_n(&hf_depots[class].count, __ATOMIC_RELAXED) == 0 ||
        !hf_depot_enter(&hf_depots[class]))
        return;
    const uint32_t unused = hf_depots[class].low;
    hf_depots[class].low = hf_depots[class].count;
    hf_depot_leave(&hf_depots[class]);
    hf_depot_empty(tsd, class, unused - unused / 4);
}

/* ---- in the slow paths ---- */

/* Whether the thread has a cache that depots may serve. */
static bool hf_depot_serves(tsd_t *tsd)
{
    return tsd != NULL && tsd_nominal(tsd) && tcache_available(tsd) &&
           tsd_reentrancy_level_get(tsd) == 0;
}

/* Before a live block is freed: sees to it that the thread's cache has room. */
static void hf_depot_before_free(const void *ptr)
{
    tsd_t *tsd = hf_thread_current();
    if (hf_depot_serves(tsd))
        hf_depot_put(tsd, (szind_t)(hf_page_word((uintptr_t)ptr) >> LG_VADDR));
}

/* Before an allocation: sees to it that the thread's cache has a block, if a depot has. */
static void hf_depot_before_malloc(size_t size)
{
    tsd_t *tsd = hf_thread_current();
    if (size <= TCACHE_MAXCLASS_LIMIT && hf_depot_serves(tsd))
        hf_depot_fill(tsd, sz_size2index(size));
}

/* Sends everything home. */
static void hf_depot_release(tsd_t *tsd)
{
    for (szind_t class = 0; class < HF_DEPOT_CLASSES && hf_depot_serves(tsd); class ++)
        hf_depot_empty(tsd, class, UINT32_MAX);
}
