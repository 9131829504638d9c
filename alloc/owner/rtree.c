/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads another jemalloc's rtree. Owns nothing, takes no lock. See rtree.h.
 */
#include "alloc/owner/rtree.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/maps.h"

/* A pointer and a lock precede the root. */
enum { BEFORE_ROOT_MAX = 1024 };

/* The pointer in a compact leaf's word: without the flags in the low bits and the size class in the
 * high bits. No user-space address needs its highest bit repeated above it. */
#define COMPACT_POINTER UINT64_C(0x0000ffffffffff80)

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

/* The index of an address in the root. */
static size_t first_index(const struct hf_rtree *tree, uintptr_t address)
{
    return address >> (tree->page_shift + tree->bits * (tree->levels - 1U));
}

static bool is_leaf_word(const struct hf_rtree *tree, uintptr_t word)
{
    return tree->compact ? (word & COMPACT_POINTER) != 0 : word != 0;
}

/* Follows the tree from a root entry to the leaf's word for an address; 0 if there is none. */
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

/* Whether a leaf's word points to a description of the extent that holds the address (extent_t,
 * edata_t): a word of bits, the extent's address, and its size with other data in the low bits.
 * Random words do not pass. */
static bool describes(const struct hf_rtree *tree, uintptr_t word, uintptr_t address)
{
    uintptr_t extent[3], page = (uintptr_t)1 << tree->page_shift;
    if (tree->compact)
        word &= COMPACT_POINTER;
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

/* Whether a root's word can be a pointer to a node, which jemalloc maps outside every object and
 * aligns to a cache line. */
static bool is_node(uintptr_t word)
{
    return word % 64 == 0 && hf_dynlink_find_fast((const void *)word) == NULL;
}

/* Whether all of a root looks like one: zeros, and pointers to nodes. This rules out caches of leaf
 * addresses among the object's variables, which arbitrary data follows. */
static bool is_root(const struct hf_rtree *tree)
{
    enum { PIECE = 512, NODES_MAX = 4096 };
    uintptr_t words[PIECE];
    size_t count = (size_t)1 << tree->bits, nodes = 0;
    for (size_t at = 0; at < count; at += PIECE) {
        if (!hf_maps_read(&tree->root[at], words, sizeof words))
            return false;
        for (size_t i = 0; i < PIECE; i++)
            if (words[i] != 0 && (++nodes > NODES_MAX || !is_node(words[i])))
                return false;
    }
    return true;
}

/* Searches the object's variables piece by piece; the root's entry for the block must lie in the
 * piece. */
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
            if (words[i] != 0 && is_node(words[i]) &&
                describes(shape, leaf_word(shape, words[i], (uintptr_t)block), (uintptr_t)block)) {
                *out = *shape;
                out->root = (const uintptr_t *)(start + from + i * sizeof words[0]);
                *offset = from + (i + 1) * sizeof words[0];
                if (is_root(out))
                    return true;
                break; /* continue with the next word, read again */
            }
    }
    return false;
}

bool hf_rtree_search(const void *start, size_t size, const void *block, size_t *cursor,
                     struct hf_rtree *out)
{
    uintptr_t from = ((uintptr_t)start + sizeof(uintptr_t) - 1) & -sizeof(uintptr_t);
    size &= -sizeof(uintptr_t);
    size_t offset = *cursor >> 2; /* a multiple of eight: its two low bits hold the shape */
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
