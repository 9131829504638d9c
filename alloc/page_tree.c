/*
 * Owns nothing. See page_tree.h.
 */
#include "page_tree.h"

/* What stands before the root: a pointer and a lock. */
enum { BEFORE_ROOT_MAX = 1024 };

bool hf_page_tree_from(const void *symbol, size_t size, struct hf_page_tree *out)
{
    static const struct hf_page_tree shapes[] = {
        {.levels = 2, .bits = 18, .page_shift = 12, .compact = true},  /* 48-bit addresses */
        {.levels = 3, .bits = 15, .page_shift = 12, .compact = false}, /* 57-bit addresses */
        {.levels = 2, .bits = 16, .page_shift = 16, .compact = true},  /* pages of 64 KiB */
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        size_t root = sizeof(uintptr_t) << shapes[i].bits;
        if (size < root || size - root > BEFORE_ROOT_MAX || size % sizeof(uintptr_t) != 0)
            continue;
        *out = shapes[i];
        out->root = (const uintptr_t *)((uintptr_t)symbol + (size - root));
        return true;
    }
    return false;
}

bool hf_page_tree_holds(const struct hf_page_tree *tree, const void *ptr)
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
    /* Flags in the lowest bits, the size class in the highest. */
    uintptr_t word = __atomic_load_n(&node[page], __ATOMIC_ACQUIRE);
    return (word & UINT64_C(0x0000ffffffffff80)) != 0;
}
