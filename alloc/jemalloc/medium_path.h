/*
 * What lies between the fast paths and the slow ones: blocks that threads' caches hold, but not
 * where the fast paths look. These do for sizes that jemalloc's table has, up to 4 KiB on the way
 * out and 14 KiB on the way in, and on top of the class (cache_top.h); caches hold up to 32 KiB.
 * Part of fast_path.h, whose rules hold. Owns nothing.
 */

/* Otherwise as hf_malloc_slow(), by a tail call. */
static JEMALLOC_NOINLINE void *hf_malloc_medium(size_t size)
{
    tsd_t *tsd = hf_thread_slot;
    if (size > TCACHE_MAXCLASS_LIMIT || !hf_is_fast(tsd))
        return hf_malloc_slow(size);
    const szind_t class = sz_size2index(size);
    void *ptr = hf_top_take(tsd, class);
    if (unlikely(ptr == NULL) && (ptr = hf_top_find(tsd, class)) == NULL)
        return hf_malloc_slow(size);
    return ptr;
}

static JEMALLOC_NOINLINE void hf_free_medium(void *ptr, const void *caller)
{
    if (!hf_free_on_top(ptr))
        hf_free_slow(ptr, caller);
}
