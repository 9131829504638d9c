/*
 * Another jemalloc's rtree: each known shape is read as it is built, an address without a leaf
 * is not followed, and a symbol of another size is no tree. The trees are doubles, made here; real
 * ones are in tests/loader/test_mmap_tracking.c and tests/real.
 */
#include "alloc/owner/rtree.h"
#include "process.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BEFORE_ROOT = 120 }; /* as in jemalloc 5.3.0 */

static char *zeroed(size_t size)
{
    char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    ck_assert_ptr_ne(at, MAP_FAILED);
    return at;
}

/* Stores a word for the page of an address and makes the nodes on the way. */
static void note(uintptr_t *node, unsigned levels, unsigned bits, unsigned page_shift,
                 size_t leaf_words, uintptr_t address, uintptr_t word)
{
    uintptr_t mask = ((uintptr_t)1 << bits) - 1;
    unsigned shift = page_shift + bits * (levels - 1);
    for (unsigned level = 1; level < levels; level++, shift -= bits) {
        uintptr_t *child = &node[(address >> shift) & mask];
        if (*child == 0)
            *child = (uintptr_t)zeroed(sizeof *child * leaf_words << bits);
        node = (uintptr_t *)*child;
    }
    node[leaf_words * ((address >> shift) & mask)] = word;
}

START_TEST(shapes)
{
    static const struct {
        unsigned levels, bits, page_shift;
        size_t leaf_words;
        uintptr_t word;
    } all[] = {
        {2, 18, 12, 1, UINT64_C(0x00e87f0012345683)}, /* size class, pointer, flags */
        {3, 15, 12, 2, UINT64_C(0x00007f0012345680)},
        {2, 16, 16, 1, UINT64_C(0x0000ffff12345681)},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        size_t size = BEFORE_ROOT + (sizeof(uintptr_t) << all[i].bits);
        char *symbol = zeroed(size);
        struct hf_rtree tree;
        ck_assert(hf_rtree_from(symbol, size, &tree));
        const uintptr_t here = UINT64_C(0x7f5512340000);
        const uintptr_t page = (uintptr_t)1 << all[i].page_shift;
        ck_assert(!hf_rtree_holds(&tree, (void *)here));
        note((uintptr_t *)(symbol + BEFORE_ROOT), all[i].levels, all[i].bits, all[i].page_shift,
             all[i].leaf_words, here, all[i].word);
        ck_assert(hf_rtree_holds(&tree, (void *)here));
        ck_assert(hf_rtree_holds(&tree, (void *)(here + page - 1)));
        ck_assert(!hf_rtree_holds(&tree, (void *)(here + page)));
        ck_assert(!hf_rtree_holds(&tree, (void *)(here - 1)));
        const uintptr_t elsewhere[] = {0,           1,          here ^ (UINT64_C(1) << 46),
                                       UINTPTR_MAX, ~here,      here | (UINT64_C(1) << 63),
                                       here << 8,   here >> 12, here ^ (UINT64_C(1) << 31)};
        for (size_t k = 0; k < sizeof elsewhere / sizeof elsewhere[0]; k++)
            ck_assert(!hf_rtree_holds(&tree, (void *)elsewhere[k]));
        /* A page that was given back: it has a class and flags, but no pointer. */
        note((uintptr_t *)(symbol + BEFORE_ROOT), all[i].levels, all[i].bits, all[i].page_shift,
             all[i].leaf_words, here, all[i].leaf_words == 1 ? UINT64_C(0x00e8000000000003) : 0);
        ck_assert(!hf_rtree_holds(&tree, (void *)here));
    }
}
END_TEST

/* The tree lies between an object's variables, some of which point elsewhere or nowhere. */
START_TEST(found_without_a_symbol)
{
    static const struct {
        unsigned levels, bits, page_shift;
        size_t leaf_words;
    } all[] = {{2, 18, 12, 1}, {3, 15, 12, 2}, {2, 16, 16, 1}};
    const uintptr_t here = UINT64_C(0x7f5512340000);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        enum { BEFORE = 777 * 8, AFTER = 4096 * 3 + 8 };
        size_t root = sizeof(uintptr_t) << all[i].bits, size = BEFORE + root + AFTER, cursor = 0;
        char *variables = zeroed(size);
        struct hf_rtree tree;
        ck_assert(!hf_rtree_search(variables, size, (void *)here, &cursor, &tree));
        for (size_t at = 0; at < BEFORE; at += 16)
            memcpy(variables + at,
                   &(uintptr_t){at % 32 == 0 ? UINT64_C(0x123456789000) : (uintptr_t)variables}, 8);
        /* jemalloc's description of the extent: bits, address, size. */
        static _Alignas(128) uintptr_t extent[3];
        extent[1] = here - ((uintptr_t)1 << all[i].page_shift);
        extent[2] = (uintptr_t)2 << all[i].page_shift | 5;
        note((uintptr_t *)(variables + BEFORE), all[i].levels, all[i].bits, all[i].page_shift,
             all[i].leaf_words, here, (uintptr_t)extent);
        bool found = false;
        for (cursor = 0; !found && hf_rtree_search(variables, size, (void *)here, &cursor, &tree);)
            found = tree.root == (uintptr_t *)(variables + BEFORE);
        ck_assert(found && tree.bits == all[i].bits && tree.levels == all[i].levels);
        ck_assert(hf_rtree_holds(&tree, (void *)here));
        ck_assert(hf_rtree_proves(&tree, (void *)here));
        ck_assert(!hf_rtree_proves(&tree, (void *)(here + (1 << 16))));
        ck_assert(!hf_rtree_proves(&tree, (void *)UINTPTR_MAX));
        ck_assert(hf_rtree_describes(&tree, (void *)here));
        /* A leaf filled with other words, as a pointer to code looks, is refused. */
        extent[2] = (uintptr_t)1 << all[i].page_shift;
        ck_assert(!hf_rtree_describes(&tree, (void *)here));
        cursor = 0;
        ck_assert(!hf_rtree_search(variables, size, (void *)here, &cursor, &tree));
        /* A pointer that leads to no tree is not followed. */
        tree.root = (uintptr_t *)UINT64_C(0x123456789000);
        ck_assert(!hf_rtree_proves(&tree, (void *)here));
        /* Neither is one that leads to unreadable memory. */
        ck_assert_int_eq(mprotect(variables, size, PROT_NONE), 0);
        cursor = 0;
        ck_assert(!hf_rtree_search(variables, size, (void *)here, &cursor, &tree));
        munmap(variables, size);
    }
}
END_TEST

/* jemalloc's variables also contain the addresses of the leaves that a thread used last. No root
 * begins there, although the block's word is right, because arbitrary words surround them. */
START_TEST(a_cached_leaf_is_no_root)
{
    enum { BEFORE = 4096 };
    const uintptr_t here = UINT64_C(0x7f5512340000);
    size_t root = sizeof(uintptr_t) << 18, size = BEFORE + 2 * root, cursor = 0;
    char *variables = zeroed(size);
    uintptr_t *leaf = (uintptr_t *)zeroed(root);
    static _Alignas(128) uintptr_t extent[3];
    struct hf_rtree tree;
    extent[1] = here - 4096;
    extent[2] = 8192;
    leaf[(here >> 12) & 0x3ffff] = (uintptr_t)extent;
    uintptr_t *cached = (uintptr_t *)(variables + BEFORE + (here >> 30) * 8);
    *cached = (uintptr_t)leaf;
    ck_assert(hf_rtree_search(variables, size, (void *)here, &cursor, &tree));
    cached[9] = (uintptr_t)&variables | 1; /* a pointer with a flag in it */
    cursor = 0;
    ck_assert(!hf_rtree_search(variables, size, (void *)here, &cursor, &tree));
    if (!objects_are_found())
        return;
    cached[9] = (uintptr_t)extent; /* points into an object, as pointers to code and constants do */
    ck_assert(!hf_rtree_search(variables, size, (void *)here, &cursor, &tree));
}
END_TEST

START_TEST(no_shape)
{
    const size_t sizes[] = {0,        8,        120,         4096,
                            1 << 18,  1 << 20,  3u << 20,    1u << 21 | 1,
                            1u << 22, SIZE_MAX, SIZE_MAX - 7};
    struct hf_rtree tree;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        bool alone = sizes[i] == 1 << 18 || sizes[i] == 1 << 21; /* nothing in front of the root */
        ck_assert_int_eq(hf_rtree_from(&tree, sizes[i], &tree), alone);
    }
}
END_TEST

int main(void)
{
    return RUN_SUITE(shapes, found_without_a_symbol, a_cached_leaf_is_no_root, no_shape);
}
