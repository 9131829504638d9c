/*
 * Large blocks of grounds: exact sizes in whole pages, and the lists in which freed ones wait for a
 * request of their size. Part of ground.h, which includes this file inside jemalloc.c and says what
 * guards what.
 */

static edata_list_active_t *hf_freed_list(struct hf_ground *ground, size_t size)
{
    size_t pages = size >> LG_PAGE;
    return &ground->freed[(pages ^ (pages >> 6) ^ (pages >> 12)) % HF_FREED_LISTS];
}

/* A freed block's extent has no size class, as if it were none. */
static void *hf_ground_reuse(struct hf_ground *ground, size_t size, size_t alignment)
{
    edata_list_active_t *list = hf_freed_list(ground, size);
    edata_t *extent;
    ql_foreach(extent, &list->head, ql_link_active)
    {
        uintptr_t start = (uintptr_t)edata_base_get(extent);
        if (edata_size_get(extent) != size || (start & (alignment - 1)) != 0)
            continue;
        edata_list_active_remove(list, extent);
        ground->freed_count--;
        edata_szind_set(extent, sz_size2index(size));
        return (void *)start;
    }
    return NULL;
}

static void hf_ground_retain(tsdn_t *tsdn, struct hf_ground *ground, edata_t *extent)
{
    pac_t *pac = &ground->arena->pa_shard.pac;
    emap_remap(tsdn, &arena_emap_global, extent, SC_NSIZES, false);
    edata_szind_set(extent, SC_NSIZES);
    ecache_dalloc(tsdn, pac, arena_get_ehooks(ground->arena), &pac->ecache_retained, extent);
}

static void hf_ground_retain_all(tsdn_t *tsdn, struct hf_ground *ground)
{
    for (int i = 0; i < HF_FREED_LISTS; i++) {
        edata_t *extent;
        while ((extent = edata_list_active_first(&ground->freed[i])) != NULL) {
            edata_list_active_remove(&ground->freed[i], extent);
            hf_ground_retain(tsdn, ground, extent);
        }
    }
    ground->freed_count = 0;
}

static void *hf_ground_extract(tsdn_t *tsdn, struct hf_ground *ground, size_t size,
                               size_t alignment)
{
    pac_t *pac = &ground->arena->pa_shard.pac;
    edata_t *extent = ecache_alloc(tsdn, pac, arena_get_ehooks(ground->arena),
                                   &pac->ecache_retained, NULL, size, alignment, false, false);
    if (extent == NULL)
        return NULL;
    szind_t class = sz_size2index(size);
    emap_remap(tsdn, &arena_emap_global, extent, class, false);
    edata_szind_set(extent, class);
    edata_slab_set(extent, false);
    return edata_base_get(extent);
}

void *hf_ground_take_pages_entry(struct hf_ground *ground, size_t size, size_t alignment)
{
    struct hf_call call;
    if (!hf_ground_enter(&call))
        return NULL;
    tsdn_t *tsdn = tsd_tsdn(tsd_fetch());
    alignment = alignment < PAGE ? PAGE : alignment;
    pthread_mutex_lock(&ground->lock);
    void *at = hf_ground_reuse(ground, size, alignment);
    if (at == NULL)
        at = hf_ground_extract(tsdn, ground, size, alignment);
    pthread_mutex_unlock(&ground->lock);
    hf_leave(&call);
    return at;
}

void hf_ground_give_pages_entry(struct hf_ground *ground, void *at, bool keep)
{
    struct hf_call call;
    if (!hf_ground_enter(&call))
        return;
    tsdn_t *tsdn = tsd_tsdn(tsd_fetch());
    edata_t *extent = emap_edata_lookup(tsdn, &arena_emap_global, at);
    pthread_mutex_lock(&ground->lock);
    if (keep && ground->freed_count < HF_FREED_MAX) {
        edata_szind_set(extent, SC_NSIZES);
        /* The last one freed is the first one used again. */
        edata_list_active_t *list = hf_freed_list(ground, edata_size_get(extent));
        ql_elm_new(extent, ql_link_active);
        ql_head_insert(&list->head, extent, ql_link_active);
        ground->freed_count++;
    } else {
        hf_ground_retain(tsdn, ground, extent);
    }
    pthread_mutex_unlock(&ground->lock);
    hf_leave(&call);
}

void hf_ground_retire_entry(void *at)
{
    struct hf_call call;
    if (!hf_ground_enter(&call))
        return;
    tsdn_t *tsdn = tsd_tsdn(tsd_fetch());
    edata_szind_set(emap_edata_lookup(tsdn, &arena_emap_global, at), SC_NSIZES);
    hf_leave(&call);
}

bool hf_ground_add_entry(struct hf_ground *ground, size_t size)
{
    struct hf_call call;
    if (!hf_ground_enter(&call))
        return false;
    tsdn_t *tsdn = tsd_tsdn(tsd_fetch());
    pac_t *pac = &ground->arena->pa_shard.pac;
    ehooks_t *ehooks = arena_get_ehooks(ground->arena);
    bool commit = true;
    edata_t *extent =
        extent_alloc_wrapper(tsdn, pac, ehooks, NULL, size, PAGE, false, &commit, false);
    if (extent != NULL)
        ecache_dalloc(tsdn, pac, ehooks, &pac->ecache_retained, extent);
    hf_leave(&call);
    return extent != NULL;
}

void hf_ground_empty_entry(struct hf_ground *ground)
{
    struct hf_call call;
    if (!hf_ground_enter(&call))
        return;
    tsd_t *tsd = tsd_fetch();
    if (tsd != &hf_thread_emergency && tsd_nominal(tsd)) {
        struct hf_ground_cache *cache = hf_ground_cache_of(tsd, ground->index);
        if (cache->arena == ground->index)
            hf_ground_drop_cache(tsd, cache);
    }
    pthread_mutex_lock(&ground->lock);
    hf_ground_retain_all(tsd_tsdn(tsd), ground);
    pthread_mutex_unlock(&ground->lock);
    arena_decay(tsd_tsdn(tsd), ground->arena, false, true);
    hf_leave(&call);
}

void hf_ground_each_free_entry(struct hf_ground *ground,
                               void (*visit)(void *context, void *at, size_t size), void *context)
{
    struct hf_call call;
    if (!hf_ground_enter(&call))
        return;
    tsdn_t *tsdn = tsd_tsdn(tsd_fetch());
    ecache_t *retained = &ground->arena->pa_shard.pac.ecache_retained;
    edata_t *extent;
    malloc_mutex_lock(tsdn, &retained->mtx);
    ql_foreach(extent, &retained->eset.lru.head, ql_link_inactive)
        visit(context, edata_base_get(extent), edata_size_get(extent));
    malloc_mutex_unlock(tsdn, &retained->mtx);
    hf_leave(&call);
}
