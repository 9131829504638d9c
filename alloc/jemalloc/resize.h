/*
 * Resizing blocks of the heap. Part of fast_path.h, whose rules hold. Owns nothing.
 */

/* A large block that outgrows its place takes its pages along, as in glibc: nothing is copied, and
 * memory for both blocks is never needed. NULL if there is no room. */
static JEMALLOC_NOINLINE void *hf_grow_large(void *ptr, size_t usable, size_t size)
{
    if (je_xallocx(ptr, size, 0, 0) >= size)
        return ptr;
    void *grown = malloc_default(size);
    if (grown == NULL)
        return NULL;
    tsdn_t *tsdn = tsdn_fetch();
    char *from = edata_base_get(emap_edata_lookup(tsdn, &arena_emap_global, ptr));
    edata_t *extent = emap_edata_lookup(tsdn, &arena_emap_global, grown);
    char *to = edata_base_get(extent);
    /* Blocks do not begin with their page; the new one begins where the old one did. */
    const size_t lead = (size_t)((char *)ptr - from);
    edata_addr_set(extent, to + lead);
    if (hf_region_move(to, edata_size_get(extent), from, PAGE_CEILING(lead + usable)))
        free_default(ptr);
    return to + lead;
}

/* realloc(3) without retries. */
static void *hf_resize(void *ptr, size_t usable, size_t size)
{
    void *grown = NULL;
    if (size > usable && hf_region_moves(usable))
        grown = hf_grow_large(ptr, usable, size);
    return grown != NULL ? grown : je_realloc(ptr, size);
}
