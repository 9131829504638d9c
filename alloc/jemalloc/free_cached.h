/*
 * Freeing into the calling thread's cache, without a lock: small blocks, and large ones up to
 * 32 KiB. Part of fast_path.h, whose rules hold. Owns nothing.
 */

/* Puts a block of a class that the caller has looked up into the thread's cache; false if a slow
 * path is due. What was freed last is left to that path, which ends the process. */
JEMALLOC_ALWAYS_INLINE bool hf_free_into(tsd_t *tsd, void *ptr, szind_t class, uint64_t deallocated,
                                         uint64_t threshold)
{
    deallocated += sz_index2size(class);
    if (unlikely(deallocated >= threshold))
        return false;
    cache_bin_t *bin = &tcache_get_from_ind(tsd, TCACHE_IND_AUTOMATIC, false, false)->bins[class];
    if (unlikely(*bin->stack_head == ptr) || !cache_bin_dalloc_easy(bin, ptr))
        return false;
    *tsd_thread_deallocatedp_get(tsd) = deallocated;
    return true;
}

/*
 * jemalloc's free_fastpath with the page map instead of the tree: one dependent load less between
 * the pointer and its cache bin, the chain that a malloc+free pair waits for.
 */
JEMALLOC_ALWAYS_INLINE bool hf_free_cached(void *ptr)
{
    tsd_t *tsd = hf_thread_slot;
    uint64_t deallocated, threshold;
    te_free_fastpath_ctx(tsd, &deallocated, &threshold);
    /* This thread has no data. In a copy that forwards, no thread has any, and there is no page
     * map. */
    if (unlikely(threshold == 0))
        return false;
    uintptr_t page = hf_page_word((uintptr_t)ptr);
    if (unlikely((page & HF_PAGE_SMALL) == 0)) /* not a slab: a large block, or no block */
        return false;
    szind_t class = (szind_t)(page >> LG_VADDR);
    return hf_free_into(tsd, ptr, class, deallocated, threshold);
}

/* Puts a large block into the thread's cache. The page map knows the first and the last page of a
 * large block; its record tells where it begins. */
JEMALLOC_ALWAYS_INLINE bool hf_free_large_cached(void *ptr)
{
    tsd_t *tsd = hf_thread_slot;
    uint64_t deallocated, threshold;
    te_free_fastpath_ctx(tsd, &deallocated, &threshold);
    if (unlikely(threshold == 0)) /* no data, as in hf_free_cached() */
        return false;
    const rtree_contents_t page = rtree_leaf_elm_bits_decode(hf_page_word((uintptr_t)ptr));
    const szind_t class = page.metadata.szind;
    if (class < SC_NBINS || class >= TCACHE_NBINS_MAX || page.metadata.slab ||
        edata_addr_get(page.edata) != ptr || edata_state_get(page.edata) != extent_state_active)
        return false;
    return hf_free_into(tsd, ptr, class, deallocated, threshold);
}
