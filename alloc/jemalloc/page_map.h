/*
 * The page map: the leaves of jemalloc's rtree that cover the region, side by side, one word per
 * page, found without walking the tree. All zero at first (no block). A leaf's memory exists as far
 * as the region does: region.c maps it, when the region grows. Indexed by the address itself, hence
 * the bias.
 *
 * Part of fast_path.h. jemalloc writes the leaves under its own lock, and anybody reads them
 * without one.
 */
static uintptr_t hf_page_word(uintptr_t address)
{
    return __atomic_load_n(&hf_page_map[address >> LG_PAGE], __ATOMIC_RELAXED);
}

/* The parts of a page's word that the fast paths need, to be loaded by themselves: the size class
 * is there earlier than after a shift. */
struct hf_page_parts {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint16_t flags, address[2], class;
#else
    uint16_t class, address[2], flags;
#endif
} __attribute__((may_alias));
_Static_assert(LG_VADDR == 48 && sizeof(struct hf_page_parts) == sizeof(uintptr_t),
               "a page's word");

/* Whether a page holds small blocks; if so, their class. The index is hidden from the compiler,
 * which would compute one address for both loads, and have the class wait for it. */
JEMALLOC_ALWAYS_INLINE bool hf_page_small(const void *ptr, size_t *class)
{
    const struct hf_page_parts *map = (const struct hf_page_parts *)hf_page_map;
    const uintptr_t page = (uintptr_t)ptr >> LG_PAGE;
    uintptr_t same = page;
    __asm__("" : "+r"(same));
    *class = __atomic_load_n(&map[page].class, __ATOMIC_RELAXED);
    return (__atomic_load_n(&map[same].flags, __ATOMIC_RELAXED) & HF_PAGE_SMALL) != 0;
}

#define HF_LEAF_BITS (RTREE_NSB / 2 + RTREE_NSB % 2)
#define HF_LEAF_SIZE (sizeof(uintptr_t) << HF_LEAF_BITS)
#if RTREE_HEIGHT != 2 || !defined(RTREE_LEAF_COMPACT)
#    error "the page map takes leaves of one word a page, in a tree of two levels (--with-lg-vaddr)"
#endif

/* The tree's root: only the entries of the region and those beside it exist. */
static rtree_node_elm_t hf_page_map_entries[(HF_REGION_MOST >> (LG_PAGE + HF_LEAF_BITS)) + 2];

static uintptr_t hf_page_map_first(void)
{
    return (hf_region.base >> (LG_PAGE + HF_LEAF_BITS)) - 1;
}

void *hf_page_map_root(void)
{
    return (void *)((uintptr_t)hf_page_map_entries -
                    hf_page_map_first() * sizeof(rtree_node_elm_t));
}

/* The leaf for a root entry. */
void *hf_page_map_leaf(size_t root_index)
{
    return (void *)((uintptr_t)hf_page_map + root_index * HF_LEAF_SIZE);
}
