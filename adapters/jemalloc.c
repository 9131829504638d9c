/* SPDX-License-Identifier: 0BSD */
/*
 * Makes a jemalloc (5.3) a member of the registry: compile this file with jemalloc's own, with its
 * include directory and the flags of its build, and link it into whatever holds that jemalloc. It
 * uses jemalloc's internal headers, so it has whatever prefix that jemalloc was configured with.
 *
 * Nothing of jemalloc's public interface tells whose an address is: free() and sallocx() read
 * wherever a foreign pointer leads them, and "arenas.lookup" takes a lock. Its tree of extents
 * tells it without a lock: the tree's nodes and the descriptions of extents are never unmapped. It
 * has every page of a slab, but only the first and the last one of a large block; and a block in a
 * thread's cache counts as live there.
 */
#include "jemalloc/internal/jemalloc_preamble.h"

#include "jemalloc/internal/jemalloc_internal_includes.h"

#include "jemalloc/internal/arena_externs.h"
#include "jemalloc/internal/bin_info.h"
#include "jemalloc/internal/rtree.h"

#include "allocator_registry.h"

/* The tree's entry for a page, or a description of nothing. */
static rtree_contents_t extent_of(uintptr_t address)
{
    const rtree_contents_t nothing = {.edata = NULL};
    rtree_t *tree = &arena_emap_global.rtree;
#if RTREE_HEIGHT > 1
    void *node = atomic_load_p(&tree->root[rtree_subkey(address, 0)].child, ATOMIC_ACQUIRE);
    for (unsigned level = 1; level + 1 < RTREE_HEIGHT && node != NULL; level++)
        node = atomic_load_p(&((rtree_node_elm_t *)node)[rtree_subkey(address, level)].child,
                             ATOMIC_ACQUIRE);
    rtree_leaf_elm_t *leaf = node;
#else
    rtree_leaf_elm_t *leaf = tree->root;
#endif
    if (leaf == NULL || address >> (RTREE_NSB + RTREE_NLIB - 1) >> 1 != 0)
        return nothing;
    return rtree_leaf_elm_read(TSDN_NULL, tree, &leaf[rtree_subkey(address, RTREE_HEIGHT - 1)],
                               false);
}

static int owns(const void *address)
{
    const rtree_contents_t contents = extent_of((uintptr_t)address);
    edata_t *extent = contents.edata;
    if (extent == NULL)
        return ALLOCATOR_REGISTRY_NOT_MINE;
    if (contents.metadata.state != extent_state_active)
        return ALLOCATOR_REGISTRY_NO_BLOCK;
    const size_t offset = (uintptr_t)address - (uintptr_t)edata_addr_get(extent);
    if (!contents.metadata.slab) {
        if (offset >= edata_size_get(extent)) /* in the page, in front of the block */
            return ALLOCATOR_REGISTRY_NO_BLOCK;
        return offset == 0 ? ALLOCATOR_REGISTRY_BLOCK : ALLOCATOR_REGISTRY_INSIDE;
    }
    const szind_t class = contents.metadata.szind;
    if (class >= SC_NBINS)
        return ALLOCATOR_REGISTRY_NO_BLOCK; /* changed meanwhile */
    const bin_info_t *bin = &bin_infos[class];
    const uint32_t index = (uint32_t)offset / (uint32_t)bin->reg_size;
    if (index >= bin->nregs ||
        !bitmap_get(edata_slab_data_get(extent)->bitmap, &bin->bitmap_info, index))
        return ALLOCATOR_REGISTRY_NO_BLOCK;
    return offset == index * bin->reg_size ? ALLOCATOR_REGISTRY_BLOCK : ALLOCATOR_REGISTRY_INSIDE;
}

/* Not malloc() and free(): where they are exported without a prefix, libc's may come first. */
static void free_block(void *block)
{
    const int saved_errno = errno;
    je_dallocx(block, 0);
    errno = saved_errno;
}

static size_t usable_size(const void *block)
{
    return je_sallocx(block, 0);
}

static void *resize(void *block, size_t size)
{
    void *moved = je_rallocx(block, size, 0);
    if (moved == NULL)
        errno = ENOMEM;
    return moved;
}

static void *allocate(size_t size, size_t alignment)
{
    void *block = je_mallocx(size != 0 ? size : 1, alignment != 0 ? MALLOCX_ALIGN(alignment) : 0);
    if (block == NULL)
        errno = ENOMEM;
    return block;
}

static void trim(void)
{
    const int saved_errno = errno;
    (void)je_mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
    (void)je_mallctl("arena." STRINGIFY(MALLCTL_ARENAS_ALL) ".purge", NULL, NULL, NULL, 0);
    errno = saved_errno;
}

static uint64_t counter(const char *name)
{
    size_t value, size = sizeof value;
    return je_mallctl(name, &value, &size, NULL, 0) == 0 ? value : UINT64_MAX;
}

static int statistics(struct allocator_registry_statistics *out)
{
    uint64_t epoch = 1;
    const int saved_errno = errno;
    const bool known = je_mallctl("epoch", NULL, NULL, &epoch, sizeof epoch) == 0;
    if (known) {
        const struct allocator_registry_statistics ours = {out->size, counter("stats.allocated"),
                                                           counter("stats.mapped")};
        memcpy(out, &ours, out->size < sizeof ours ? out->size : sizeof ours);
    }
    errno = saved_errno;
    return known ? 0 : -1;
}

ALLOCATOR_REGISTRY_PUBLISH(jemalloc_member) = {
    ALLOCATOR_REGISTRY_VERSION,
    sizeof(struct allocator_registry),
    "jemalloc",
    JEMALLOC_VERSION,
    ALLOCATOR_REGISTRY_TELLS_FIRST | ALLOCATOR_REGISTRY_DENIES_INSIDE,
    owns,
    free_block,
    usable_size,
    resize,
    allocate,
    NULL,
    NULL,
    trim,
    statistics,
};
