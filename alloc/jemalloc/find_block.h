/*
 * Finds blocks by address. Part of fast_path.h, which includes this file, like it inside
 * jemalloc.c.
 *
 * Owns nothing and takes no lock: what it reads may change meanwhile, so the results hold only
 * while the caller keeps the block.
 */

/* Whether this thread's cache holds a block: it is free then, although its slab does not know. */
static bool hf_is_cached(tsd_t *tsd, const void *block, szind_t class)
{
    if (tsd == NULL || !tsd_nominal(tsd) || !tcache_available(tsd) || class >= TCACHE_NBINS_MAX)
        return false;
    cache_bin_t *bin = &tsd_tcachep_get(tsd)->bins[class];
    cache_bin_sz_t count = cache_bin_ncached_get_local(bin);
    for (cache_bin_sz_t i = 0; i < count; i++)
        if (bin->stack_head[i] == block)
            return true;
    return *hf_top_of(tsd, class) == block;
}

/* The live extent that holds an address. The tree has entries only for the first and last page of a
 * large extent, so the nearest entry before the address decides. A missing leaf has none. */
static edata_t *hf_extent_of(tsd_t *tsd, uintptr_t address)
{
    for (uintptr_t page = address & ~(uintptr_t)PAGE_MASK; page - hf_region.base < hf_region.size;
         page -= PAGE) {
        emap_full_alloc_ctx_t found;
        if (emap_full_alloc_ctx_try_lookup(tsd_tsdn(tsd), &arena_emap_global, (void *)page,
                                           &found)) {
            page &= ~(((uintptr_t)1 << 30) - 1);
            continue;
        }
        edata_t *extent = found.edata;
        if (extent == NULL)
            continue;
        bool holds = address - (uintptr_t)edata_base_get(extent) < edata_size_get(extent);
        return holds && edata_state_get(extent) == extent_state_active ? extent : NULL;
    }
    return NULL;
}

/* Without a lock, a block in another thread's cache counts as live. */
size_t hf_heap_block_entry(const void *ptr, const void **block)
{
    tsd_t *tsd = hf_thread_current();
    size_t size = 0;
    uintptr_t address = (uintptr_t)ptr;
    edata_t *extent = hf_extent_of(tsd, address);
    /* From the extent, because the tree's entry for a last page has no size class. */
    szind_t class = extent != NULL ? edata_szind_get_maybe_invalid(extent) : SC_NSIZES;
    if (class < SC_NSIZES) {
        uintptr_t start = (uintptr_t)edata_addr_get(extent);
        size = edata_usize_get(extent);
        if (edata_slab_get(extent)) {
            const bin_info_t *info = &bin_infos[class];
            size_t index = (address - start) / info->reg_size;
            bool live = index < info->nregs &&
                        bitmap_get(edata_slab_data_get(extent)->bitmap, &info->bitmap_info, index);
            start += index * info->reg_size;
            size = live ? size : 0;
        }
        if (address - start >= size || hf_is_cached(tsd, (const void *)start, class))
            size = 0;
        *block = (const void *)start;
        if (unlikely(hf_checks_full) && size > HF_GUARD)
            size = hf_check_asked(*block, size);
    }
    if (size == 0)
        *block = NULL;
    return size;
}

/* jemalloc knows the first page of each live block, and all pages of slabs. What begins inside the
 * last block of a slab would end behind the slab. A large block's extent knows its size, and has a
 * page more. */
size_t hf_heap_room_entry(const void *ptr)
{
    uintptr_t address = (uintptr_t)ptr, page = hf_page_word(address);
    szind_t class = (szind_t)(page >> LG_VADDR);
    if (unlikely(page == 0 || class >= SC_NSIZES))
        return 0;
    if ((page & HF_PAGE_SMALL) == 0)
        return edata_usize_get(rtree_leaf_elm_bits_decode(page).edata);
    size_t size = sz_index2size(class);
    uintptr_t last = address + size - 1;
    if ((address ^ last) >> LG_PAGE == 0)
        return size;
    uintptr_t end = last - hf_region.base < hf_region.size ? hf_page_word(last) : 0;
    return (end & HF_PAGE_SMALL) != 0 && end >> LG_VADDR == class ? size : 0;
}
