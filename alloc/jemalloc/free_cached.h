/*
 * Freeing into the calling thread's cache, without a lock: small blocks, and large ones up to
 * 32 KiB. Part of fast_path.h, whose rules hold. Owns nothing.
 */

/*
 * jemalloc's free_fastpath with the page map instead of the tree: one dependent load less between
 * the pointer and its cache bin, the chain that a malloc+free pair waits for.
 */
JEMALLOC_ALWAYS_INLINE bool hf_free_cached(void *ptr)
{
    tsd_t *tsd = hf_thread_slot;
    if (unlikely(!hf_is_fast(tsd))) /* a copy that forwards has no page map */
        return false;
    size_t class;
    if (unlikely(!hf_page_small(ptr, &class))) /* a large block, or none */
        return false;
    return hf_top_put(tsd, class, ptr);
}

/* The same for blocks whose class has no top, and for large blocks. The page map knows the first
 * and the last page of a large block; its record tells where it begins. */
JEMALLOC_ALWAYS_INLINE bool hf_free_on_top(void *ptr)
{
    tsd_t *tsd = hf_thread_slot;
    if (unlikely(!hf_is_fast(tsd)))
        return false;
    const rtree_contents_t page = rtree_leaf_elm_bits_decode(hf_page_word((uintptr_t)ptr));
    const szind_t class = page.metadata.szind;
    if (!page.metadata.slab &&
        (class < SC_NBINS || class >= TCACHE_NBINS_MAX || edata_addr_get(page.edata) != ptr ||
         edata_state_get(page.edata) != extent_state_active))
        return false;
    return hf_top_place(tsd, class, ptr);
}
