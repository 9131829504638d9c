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
void hf_heap_return_entry(void *ptr, size_t class) HF_EXPORT_AS("hf_heap_return");

static JEMALLOC_NOINLINE struct hf_taken hf_heap_take_slow(size_t size)
{
    struct hf_taken taken = {hf_malloc_slow(size), 0};
    if (likely(hf_forward == NULL) && !hf_is_watched() &&
        (uintptr_t)taken.ptr - hf_region.base < hf_region.size)
        taken.size = hf_heap_room_entry(taken.ptr);
    return taken;
}

/* hf_malloc() of at most HF_TAKE_MAX bytes. */
struct hf_taken hf_heap_take_entry(size_t size)
{
    tsd_t *tsd = hf_thread_slot;
    const szind_t class = sz_size2index_lookup(size);
    void *ptr = hf_top_take(tsd, class);
    if (unlikely(ptr == NULL) && (ptr = hf_top_find(tsd, class)) == NULL)
        return hf_heap_take_slow(size);
    return (struct hf_taken){ptr, sz_index2size(class)};
}

/* hf_free_cached() without looking for what the caller knows. */
void hf_heap_return_entry(void *ptr, size_t class)
{
    tsd_t *tsd = hf_thread_slot;
    if ((unlikely(!hf_is_fast(tsd)) || unlikely(!hf_top_put(tsd, class, ptr))) &&
        !hf_top_place(tsd, class, ptr))
        hf_free_slow(ptr, __builtin_return_address(0));
}

bool hf_heap_stays_entry(const void *ptr, size_t size) HF_EXPORT_AS("hf_heap_stays");

bool hf_heap_stays_entry(const void *ptr, size_t size)
{
    tsd_t *tsd = hf_thread_slot;
    if (unlikely(!hf_is_fast(tsd)) || size - 1 >= SC_SMALL_MAXCLASS)
        return false;
    uintptr_t page = hf_page_word((uintptr_t)ptr);
    size_t class = page >> LG_VADDR;
    /* What was freed last is left to the slow path, which ends the process. */
    return (page & HF_PAGE_SMALL) != 0 && class == sz_size2index(size) &&
           !hf_top_is(tsd, class, ptr);
}

void *hf_heap_aligned_cached_entry(size_t alignment, size_t size)
    HF_EXPORT_AS("hf_heap_aligned_cached");

/* Every small block is aligned to the powers of two, up to a page, that divide its class. */
void *hf_heap_aligned_cached_entry(size_t alignment, size_t size)
{
    tsd_t *tsd = hf_thread_slot;
    if (alignment > PAGE || size - 1 >= SC_SMALL_MAXCLASS)
        return NULL;
    size = ALIGNMENT_CEILING(size, alignment);
    if (unlikely(size > SC_SMALL_MAXCLASS))
        return NULL;
    const szind_t class = sz_size2index(size);
    void *ptr = hf_top_take(tsd, class);
    return likely(ptr != NULL) ? ptr : hf_top_find(tsd, class);
}
