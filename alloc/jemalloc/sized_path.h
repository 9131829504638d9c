/*
 * Hot functions beside hf_malloc() and hf_free(): for a heap that keeps data at the end of each
 * block, and so needs the block's size in every call, an allocation that tells it and a free that
 * is told; what realloc and aligned_alloc can do without a lock. Part of fast_path.h.
 *
 * The rules of fast_path.h hold. Owns nothing; publishes the page map and the sizes of the classes.
 */
_Static_assert(LG_PAGE == HF_LG_PAGE && LG_VADDR == HF_LG_ADDRESS &&
                   SC_LOOKUP_MAXCLASS >= HF_TAKE_MAX,
               "what seam.h states");

struct hf_taken hf_heap_take_entry(size_t size) HF_EXPORT_AS("hf_heap_take");
void hf_heap_return_entry(void *ptr, size_t class, size_t size) HF_EXPORT_AS("hf_heap_return");

/* The calling thread's cache for a class. Its address is hidden from the compiler, which would
 * compute it anew for each member. */
JEMALLOC_ALWAYS_INLINE cache_bin_t *hf_bin_of(tsd_t *tsd, size_t class)
{
    cache_bin_t *bin = &tcache_get_from_ind(tsd, TCACHE_IND_AUTOMATIC, false, false)->bins[class];
    __asm__("" : "+r"(bin));
    return bin;
}

static JEMALLOC_NOINLINE struct hf_taken hf_heap_take_slow(size_t size)
{
    struct hf_taken taken = {hf_malloc_slow(size), 0};
    if (likely(hf_forward == NULL) && !hf_is_watched() &&
        (uintptr_t)taken.ptr - hf_region.base < hf_region.size)
        taken.size = hf_heap_room_entry(taken.ptr);
    return taken;
}

/* jemalloc's imalloc_fastpath. */
struct hf_taken hf_heap_take_entry(size_t size)
{
    tsd_t *tsd = hf_thread_slot;
    szind_t class;
    size_t usable;
    uint64_t allocated, threshold;
    bool success;
    sz_size2index_usize_fastpath(size, &class, &usable);
    te_malloc_fastpath_ctx(tsd, &allocated, &threshold);
    allocated += usable;
    if (unlikely(allocated >= threshold)) /* as in a thread without data, whose threshold is 0 */
        return hf_heap_take_slow(size);
    cache_bin_t *bin = hf_bin_of(tsd, class);
    void *ptr = cache_bin_alloc_easy(bin, &success);
    if (unlikely(!success)) {
        ptr = cache_bin_alloc(bin, &success);
        if (!success)
            return hf_heap_take_slow(size);
    }
    fastpath_success_finish(tsd, allocated, bin, ptr);
    return (struct hf_taken){ptr, usable};
}

/* hf_free_cached() without looking for what the caller knows. */
void hf_heap_return_entry(void *ptr, size_t class, size_t size)
{
    tsd_t *tsd = hf_thread_slot;
    uint64_t deallocated, threshold;
    te_free_fastpath_ctx(tsd, &deallocated, &threshold);
    deallocated += size;
    if (likely(deallocated < threshold)) {
        cache_bin_t *bin = hf_bin_of(tsd, class);
        if (likely(cache_bin_dalloc_easy(bin, ptr))) {
            *tsd_thread_deallocatedp_get(tsd) = deallocated;
            return;
        }
    }
    hf_free_slow(ptr, __builtin_return_address(0));
}

bool hf_heap_stays_entry(const void *ptr, size_t size) HF_EXPORT_AS("hf_heap_stays");

bool hf_heap_stays_entry(const void *ptr, size_t size)
{
    tsd_t *tsd = hf_thread_slot;
    uint64_t deallocated, threshold;
    te_free_fastpath_ctx(tsd, &deallocated, &threshold);
    if (unlikely(threshold == 0) || size - 1 >= SC_SMALL_MAXCLASS)
        return false;
    uintptr_t page = hf_page_word((uintptr_t)ptr);
    size_t class = page >> LG_VADDR;
    /* What was freed last is left to the slow path, which ends the process. */
    return (page & HF_PAGE_SMALL) != 0 && class == sz_size2index(size) &&
           *hf_bin_of(tsd, class)->stack_head != ptr;
}

/* A block of the thread's cache, NULL if it has none or a slow path is due. Every small block is
 * aligned to the powers of two, up to a page, that divide its class. */
JEMALLOC_ALWAYS_INLINE void *hf_aligned_cached(size_t alignment, size_t size)
{
    tsd_t *tsd = hf_thread_slot;
    uint64_t allocated, threshold;
    bool success;
    if (alignment > PAGE || size - 1 >= SC_SMALL_MAXCLASS)
        return NULL;
    size = ALIGNMENT_CEILING(size, alignment);
    te_malloc_fastpath_ctx(tsd, &allocated, &threshold);
    if (unlikely(threshold == 0 || size > SC_SMALL_MAXCLASS))
        return NULL;
    size_t class = sz_size2index(size);
    allocated += sz_index2size(class);
    if (unlikely(allocated >= threshold))
        return NULL;
    cache_bin_t *bin = hf_bin_of(tsd, class);
    void *ptr = cache_bin_alloc(bin, &success);
    if (unlikely(!success))
        return NULL;
    fastpath_success_finish(tsd, allocated, bin, ptr);
    return ptr;
}
