/*
 * Owns nothing. See rtree.h.
 */
#include "alloc/owner/rtree.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/maps.h"

/* What stands before the root: a pointer and a lock. */
enum { BEFORE_ROOT_MAX = 1024 };

static const struct hf_rtree shapes[] = {
    {.levels = 2, .bits = 18, .page_shift = 12, .compact = true},  /* 48-bit addresses */
    {.levels = 3, .bits = 15, .page_shift = 12, .compact = false}, /* 57-bit addresses */
    {.levels = 2, .bits = 16, .page_shift = 16, .compact = true},  /* pages of 64 KiB */
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

bool hf_rtree_from(const void *symbol, size_t size, struct hf_rtree *out)
{
    for (size_t i = 0; i < SHAPES; i++) {
        size_t root = sizeof(uintptr_t) << shapes[i].bits;
        if (size < root || size - root > BEFORE_ROOT_MAX || size % sizeof(uintptr_t) != 0)
            continue;
        *out = shapes[i];
        out->root = (const uintptr_t *)((uintptr_t)symbol + (size - root));
        return true;
    }
    return false;
}

/* The root's index of an address. */
static size_t first_index(const struct hf_rtree *tree, uintptr_t address)
{
    return address >> (tree->page_shift + tree->bits * (tree->levels - 1U));
}

static bool is_leaf_word(const struct hf_rtree *tree, uintptr_t word)
{
    /* Flags in the lowest bits, the size class in the highest. */
    return tree->compact ? (word & UINT64_C(0x0000ffffffffff80)) != 0 : word != 0;
}

/* From what the root has for an address down to the leaf's word; 0 where there is none. */
static uintptr_t leaf_word(const struct hf_rtree *tree, uintptr_t node, uintptr_t address)
{
    uintptr_t mask = ((uintptr_t)1 << tree->bits) - 1;
    unsigned shift = tree->page_shift + tree->bits * (tree->levels - 2U);
    for (unsigned level = 1; level < tree->levels; level++, shift -= tree->bits) {
        size_t words = !tree->compact && level + 1 == tree->levels ? 2 : 1;
        if (node == 0 || node % sizeof(uintptr_t) != 0 ||
            !hf_maps_read((const uintptr_t *)node + words * ((address >> shift) & mask), &node,
                          sizeof node))
            return 0;
    }
    return is_leaf_word(tree, node) ? node : 0;
}

static uintptr_t word_of(const struct hf_rtree *tree, const void *ptr)
{
    size_t index = first_index(tree, (uintptr_t)ptr);
    uintptr_t node;
    return index >> tree->bits == 0 && hf_maps_read(&tree->root[index], &node, sizeof node)
               ? leaf_word(tree, node, (uintptr_t)ptr)
               : 0;
}

/* A leaf's word leads to what jemalloc knows of the stretch (extent_t, edata_t): a word of bits,
 * its address, and its size with other things in the low bits. Any other words would not do. */
static bool describes(const struct hf_rtree *tree, uintptr_t word, uintptr_t address)
{
    uintptr_t extent[3], page = (uintptr_t)1 << tree->page_shift;
    if (tree->compact)
        word = (uintptr_t)((intptr_t)(word << 16) >> 16) & ~(uintptr_t)127;
    if (word == 0 || word % sizeof(uintptr_t) != 0 ||
        !hf_maps_read((const void *)word, extent, sizeof extent))
        return false;
    uintptr_t start = extent[1] & -page;
    return start != 0 && address - start < (extent[2] & -page);
}

bool hf_rtree_proves(const struct hf_rtree *tree, const void *ptr)
{
    return word_of(tree, ptr) != 0;
}

bool hf_rtree_describes(const struct hf_rtree *tree, const void *ptr)
{
    uintptr_t word = word_of(tree, ptr);
    return word != 0 && describes(tree, word, (uintptr_t)ptr);
}

/* Whether all of a root looks like one: words of 0, and pointers to nodes, which jemalloc maps
 * outside of every object and begins at a cache line. Caches of a few leaves' addresses lie among
 * the variables, too, and what follows them is anything. */
static bool is_root(const struct hf_rtree *tree)
{
    enum { PIECE = 512, NODES_MAX = 4096 };
    uintptr_t words[PIECE];
    size_t count = (size_t)1 << tree->bits, nodes = 0;
    for (size_t at = 0; at < count; at += PIECE) {
        if (!hf_maps_read(&tree->root[at], words, sizeof words))
            return false;
        for (size_t i = 0; i < PIECE; i++)
            if (words[i] != 0 && (words[i] % 64 != 0 || ++nodes > NODES_MAX ||
                                  hf_dynlink_find_fast((const void *)words[i]) != NULL))
                return false;
    }
    return true;
}

/* A piece of the variables at a time; the root's word for the block must lie in it. */
static bool search_shape(const struct hf_rtree *shape, uintptr_t start, size_t size,
                         const void *block, size_t *offset, struct hf_rtree *out)
{
    size_t root = sizeof(uintptr_t) << shape->bits;
    size_t index = first_index(shape, (uintptr_t)block) * sizeof(uintptr_t);
    uintptr_t words[512];
    if (size < root || index >= root)
        return false;
    for (size_t end = size - root + sizeof(uintptr_t); *offset < end;) {
        size_t length = end - *offset < sizeof words ? end - *offset : sizeof words;
        bool read = hf_maps_read((const void *)(start + *offset + index), words, length);
        size_t from = *offset;
        *offset += length;
        for (size_t i = 0; read && i < length / sizeof words[0]; i++)
            if (words[i] != 0 &&
                describes(shape, leaf_word(shape, words[i], (uintptr_t)block), (uintptr_t)block)) {
                *out = *shape;
                out->root = (const uintptr_t *)(start + from + i * sizeof words[0]);
                *offset = from + (i + 1) * sizeof words[0];
                if (is_root(out))
                    return true;
                break; /* on from the next word, read anew */
            }
    }
    return false;
}

bool hf_rtree_search(const void *start, size_t size, const void *block, size_t *cursor,
                     struct hf_rtree *out)
{
    uintptr_t from = ((uintptr_t)start + sizeof(uintptr_t) - 1) & -sizeof(uintptr_t);
    size &= -sizeof(uintptr_t);
    size_t offset = *cursor >> 2; /* a multiple of eight: two bits are left for the shape */
    for (size_t i = *cursor & 3; i < SHAPES; i++, offset = 0)
        if (search_shape(&shapes[i], from, size, block, &offset, out)) {
            *cursor = offset << 2 | i;
            return true;
        }
    return false;
}

bool hf_rtree_holds(const struct hf_rtree *tree, const void *ptr)
{
    uintptr_t address = (uintptr_t)ptr, mask = ((uintptr_t)1 << tree->bits) - 1;
    unsigned shift = tree->page_shift + tree->bits * (tree->levels - 1U);
    const uintptr_t *node = tree->root;
    if (address >> shift > mask)
        return false;
    for (unsigned level = 1; level < tree->levels; level++, shift -= tree->bits) {
        node =
            (const uintptr_t *)__atomic_load_n(&node[(address >> shift) & mask], __ATOMIC_ACQUIRE);
        if (node == NULL)
            return false;
    }
    size_t page = (address >> shift) & mask;
    if (!tree->compact)
        return __atomic_load_n(&node[2 * page], __ATOMIC_ACQUIRE) != 0;
    return is_leaf_word(tree, __atomic_load_n(&node[page], __ATOMIC_ACQUIRE));
}
