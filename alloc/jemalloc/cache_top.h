/*
 * The top of a thread's cache: of each size class, the block that was freed last lies beside the
 * class's array of blocks instead of in it. A block that is freed and allocated again then passes
 * through one word of memory, whose address is known as soon as the class is. Through the array it
 * takes two loads more, each waiting for the one before: the array's position, then the block. Part
 * of fast_path.h.
 *
 * Owns hf_tops in a thread's data (homefree.patch), which only the owner of the cache writes.
 * jemalloc itself does not know these blocks, and does without them: before it empties a cache,
 * hf_top_down() puts the block into the array. There may be blocks in the array and no top; then
 * the next call that looks for one takes it from there.
 *
 * Also owns the thread's ticks, which bound how long a thread goes without looking at its caches
 * (thread_caches.h). An allocation is one. A fast free is none; a slow one, as a thread that only
 * frees has each time its cache is full, stands for those before it.
 */
enum { HF_TICKS = 256, HF_TICKS_FREE = 64 }; /* between two looks; of a slow free */

/* Whether the thread has data and nothing forces slow paths; jemalloc keeps a threshold of 0
 * otherwise, which other threads may set at any time. */
JEMALLOC_ALWAYS_INLINE bool hf_is_fast(tsd_t *tsd)
{
    return *tsd_thread_allocated_next_event_fastp_get_unsafe(tsd) != 0;
}

/* The thread's array for a class. Its address is hidden from the compiler, which would compute it
 * anew for each member. */
JEMALLOC_ALWAYS_INLINE cache_bin_t *hf_bin_of(tsd_t *tsd, size_t class)
{
    cache_bin_t *bin = &tsd_tcachep_get_unsafe(tsd)->bins[class];
    __asm__("" : "+r"(bin));
    return bin;
}

JEMALLOC_ALWAYS_INLINE void **hf_top_of(tsd_t *tsd, size_t class)
{
    return &tsd_hf_topsp_get_unsafe(tsd)->at[class];
}

/* Takes the next top from the array; there is none if that is empty. */
JEMALLOC_ALWAYS_INLINE void hf_top_refill(tsd_t *tsd, size_t class)
{
    cache_bin_t *bin = hf_bin_of(tsd, class);
    void **head = bin->stack_head;
    const cache_bin_sz_t low = (cache_bin_sz_t)(uintptr_t)head;
    if (unlikely(low == bin->low_bits_low_water)) {
        if (low == bin->low_bits_empty) {
            *hf_top_of(tsd, class) = NULL;
            return;
        }
        bin->low_bits_low_water = low + sizeof *head;
    }
    *hf_top_of(tsd, class) = *head;
    bin->stack_head = head + 1;
}

/* Takes the top; NULL if a slower path is due. */
JEMALLOC_ALWAYS_INLINE void *hf_top_take(tsd_t *tsd, size_t class)
{
    void *ptr = *hf_top_of(tsd, class);
    /* The templates, which threads share, have no tops, so the count is the thread's own. */
    if (unlikely(ptr == NULL) || unlikely(!hf_is_fast(tsd)) ||
        unlikely(--tsd_hf_topsp_get_unsafe(tsd)->ticks < 0))
        return NULL;
    hf_top_refill(tsd, class);
    return ptr;
}

/* The same in slower paths: also if the array has blocks and there is no top. */
static JEMALLOC_NOINLINE void *hf_top_find(tsd_t *tsd, size_t class)
{
    if (!hf_is_fast(tsd) || cache_bin_disabled(hf_bin_of(tsd, class)))
        return NULL;
    if (*hf_top_of(tsd, class) == NULL)
        hf_top_refill(tsd, class);
    return hf_top_take(tsd, class);
}

/* Whether the block is what the thread's cache took last of its class. */
JEMALLOC_ALWAYS_INLINE bool hf_top_is(tsd_t *tsd, size_t class, const void *ptr)
{
    const void *top = *hf_top_of(tsd, class);
    cache_bin_t *bin = hf_bin_of(tsd, class);
    if (likely(top != NULL))
        return top == ptr;
    /* The word above an empty array belongs to another class. */
    return cache_bin_ncached_get_local(bin) != 0 && *bin->stack_head == ptr;
}

/* Puts a block of the class on top; false if a slower path is due. The caller has asked
 * hf_is_fast(). What was freed last is left to the slower path, which ends the process. */
JEMALLOC_ALWAYS_INLINE bool hf_top_put(tsd_t *tsd, size_t class, void *ptr)
{
    void *top = *hf_top_of(tsd, class);
    cache_bin_t *bin = hf_bin_of(tsd, class);
    void **head = bin->stack_head;
    if (unlikely(top == NULL) || unlikely(top == ptr) ||
        unlikely((cache_bin_sz_t)(uintptr_t)head == bin->low_bits_full))
        return false;
    *hf_top_of(tsd, class) = ptr;
    head[-1] = top;
    bin->stack_head = head - 1;
    return true;
}

/* The same in slower paths: also if there is no top yet. */
JEMALLOC_ALWAYS_INLINE bool hf_top_place(tsd_t *tsd, size_t class, void *ptr)
{
    cache_bin_t *bin = hf_bin_of(tsd, class);
    if (!hf_is_fast(tsd) || cache_bin_disabled(bin))
        return false;
    if (*hf_top_of(tsd, class) != NULL)
        return hf_top_put(tsd, class, ptr);
    if (hf_top_is(tsd, class, ptr))
        return false;
    *hf_top_of(tsd, class) = ptr;
    return true;
}

/* After jemalloc has freed a block, maybe into the array: exchanges it for the top, where the fast
 * paths find it if it is freed again. */
static void hf_top_raise(tsd_t *tsd, size_t class, void *ptr)
{
    if (class >= TCACHE_NBINS_MAX || !hf_is_fast(tsd) || *hf_top_of(tsd, class) == NULL)
        return;
    cache_bin_t *bin = hf_bin_of(tsd, class);
    if (cache_bin_ncached_get_local(bin) == 0 || *bin->stack_head != ptr)
        return;
    *bin->stack_head = *hf_top_of(tsd, class);
    *hf_top_of(tsd, class) = ptr;
}

/* How many blocks the thread's cache holds of a class. */
JEMALLOC_ALWAYS_INLINE size_t hf_cached_blocks(tsd_t *tsd, szind_t class)
{
    return (size_t)cache_bin_ncached_get_local(hf_bin_of(tsd, class)) +
           (*hf_top_of(tsd, class) != NULL);
}

/* Puts the top of a class, which jemalloc is about to empty, into the array; if that is full, some
 * of its blocks go home. Only a thread's own cache has tops. */
void hf_top_down(tsd_t *tsd, tcache_t *tcache, szind_t class)
{
    void *top = *hf_top_of(tsd, class);
    cache_bin_t *bin = hf_bin_of(tsd, class);
    if (bin != &tcache->bins[class] || top == NULL)
        return;
    *hf_top_of(tsd, class) = NULL;
    if (cache_bin_full(bin)) {
        const unsigned half = cache_bin_ncached_max_get(bin) / 2;
        if (class < SC_NBINS)
            tcache_bin_flush_small(tsd, tcache, bin, class, half);
        else
            tcache_bin_flush_large(tsd, tcache, bin, class, half);
    }
    (void)cache_bin_dalloc_easy(bin, top);
}
