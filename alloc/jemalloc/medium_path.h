/*
 * What lies between the fast paths and the slow ones: blocks that threads' caches hold although
 * jemalloc's fast paths do not look there, because of their size. That is up to 32 KiB; its table
 * of sizes ends at 4 KiB, and its slabs at 14. Part of fast_path.h, whose rules hold. Owns nothing.
 */

/* Otherwise as hf_malloc_slow(), by a tail call. */
static JEMALLOC_NOINLINE void *hf_malloc_medium(size_t size)
{
    tsd_t *tsd = hf_thread_slot;
    uint64_t allocated, threshold;
    bool success;
    if (size <= SC_LOOKUP_MAXCLASS || size > TCACHE_MAXCLASS_LIMIT)
        return hf_malloc_slow(size);
    szind_t class = sz_size2index_compute(size);
    te_malloc_fastpath_ctx(tsd, &allocated, &threshold);
    allocated += sz_index2size(class);
    if (unlikely(allocated >= threshold))
        return hf_malloc_slow(size);
    cache_bin_t *bin = &tsd_tcachep_get(tsd)->bins[class];
    void *ptr = cache_bin_alloc(bin, &success);
    if (unlikely(!success))
        return hf_malloc_slow(size);
    fastpath_success_finish(tsd, allocated, bin, ptr);
    return ptr;
}

static JEMALLOC_NOINLINE void hf_free_medium(void *ptr, const void *caller)
{
    if (!hf_free_large_cached(ptr))
        hf_free_slow(ptr, caller);
}
