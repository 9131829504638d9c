/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See large_cache.h. Owns a stack of freed blocks for each size, and how much is kept and held; all
 * are atomics, which any thread changes.
 */
#include "alloc/spans/large_cache.h"

#include "alloc/base/apart.h"
#include "alloc/spans/entry.h"

/* Four sizes a doubling, as pages have. A block is in the last one that is not larger. */
enum { STEPS = 4, LG_SMALLEST = HF_LG_UNIT, LG_MOST = 24, SIZES = (LG_MOST - LG_SMALLEST) * STEPS };

static HF_APART struct hf_large_stack stacks[SIZES];

/* Bytes in blocks that the cache has, by whether they were moved, in all blocks, and of live blocks
 * behind their sizes. */
static struct {
    size_t kept[2] __attribute__((aligned(64)));
    size_t held __attribute__((aligned(64)));
    size_t lent;
} bytes;

/*
 * What may be kept. Blocks of pages: a part of all, but at least something; for larger ones pages
 * cost little. Pages could make other sizes of them, which nobody can of what was moved: of such
 * blocks more is kept, for others that grow.
 */
enum { SHARE = 8, LEAST = 4 << 20, MOVED = 32 << 20 };
#define LARGEST ((size_t)4 << 20)

/* The last size that is at most so large. */
static unsigned size_below(size_t size)
{
    const unsigned power = 63 - (unsigned)__builtin_clzl(size);
    return (power - LG_SMALLEST) * STEPS + (unsigned)(size >> (power - 2) & (STEPS - 1));
}

static bool has_capacity(const struct hf_large *block)
{
    const size_t share = __atomic_load_n(&bytes.held, __ATOMIC_RELAXED) / SHARE;
    const size_t kept = __atomic_load_n(&bytes.kept[block->moved], __ATOMIC_RELAXED) + block->size;
    return block->moved ? kept <= MOVED
                        : block->size <= LARGEST && kept <= (share > LEAST ? share : LEAST);
}

/* Windows that a block may wait. One alone tells little: on a busy machine, the program may hardly
 * have run meanwhile. */
enum { WINDOWS = 5 };

static struct hf_large *pop(unsigned index)
{
    struct hf_large_stack *stack = &stacks[index];
    if (hf_large_stack_top(__atomic_load_n(&stack->head, __ATOMIC_RELAXED)) == NULL)
        return NULL;
    struct hf_large *block = hf_large_stack_pop(stack);
    if (block == NULL)
        return NULL;
    const uint32_t left = hf_large_stack_depth(block) - 1;
    if (left < __atomic_load_n(&stack->low, __ATOMIC_RELAXED))
        __atomic_store_n(&stack->low, left, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&bytes.kept[block->moved], block->size, __ATOMIC_RELAXED);
    return block;
}

struct hf_large *hf_large_cache_take(size_t size, size_t most)
{
    const unsigned last = size_below(most);
    for (unsigned i = size_below(size - 1) + 1; i <= last && i < SIZES; i++) {
        struct hf_large *block = pop(i);
        if (block != NULL)
            return block;
    }
    return NULL;
}

/* Nobody takes back what is lent, so it is a part of all. */
struct hf_large *hf_large_cache_take_growing(size_t size)
{
    enum { LENT = 4, TIMES = 8 };
    if (size >> LG_MOST != 0)
        return NULL;
    const size_t lent = __atomic_load_n(&bytes.lent, __ATOMIC_RELAXED);
    const size_t may = __atomic_load_n(&bytes.held, __ATOMIC_RELAXED) / LENT + LEAST;
    const size_t most = size + (lent < may ? may - lent : 0);
    const unsigned first = size_below(size - 1) + 1;
    unsigned i = size_below(most < TIMES * size ? most : TIMES * size);
    struct hf_large *block = NULL;
    for (i = i < SIZES ? i : SIZES - 1; i >= first && block == NULL; i--)
        block = pop(i);
    return block;
}

void hf_large_cache_lent(ptrdiff_t more)
{
    __atomic_add_fetch(&bytes.lent, (size_t)more, __ATOMIC_RELAXED);
}

bool hf_large_cache_give(struct hf_large *block)
{
    const unsigned index = size_below(block->size);
    if (index >= SIZES || !has_capacity(block))
        return false;
    __atomic_add_fetch(&bytes.kept[block->moved], block->size, __ATOMIC_RELAXED);
    hf_large_stack_push(&stacks[index], block);
    return true;
}

void hf_large_cache_held(ptrdiff_t more)
{
    __atomic_add_fetch(&bytes.held, (size_t)more, __ATOMIC_RELAXED);
}

void hf_large_cache_trim(bool all, void (*end)(struct hf_large *block))
{
    static unsigned calls;
    if (!all && __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % WINDOWS != 0)
        return;
    for (unsigned i = 0; i < SIZES; i++) {
        struct hf_large_stack *stack = &stacks[i];
        uint32_t idle = all ? UINT32_MAX : __atomic_load_n(&stack->low, __ATOMIC_RELAXED);
        for (struct hf_large *block; idle != 0 && (block = pop(i)) != NULL; idle--)
            end(block);
        const uint64_t head = __atomic_load_n(&stack->head, __ATOMIC_ACQUIRE);
        __atomic_store_n(&stack->low, hf_large_stack_depth(hf_large_stack_top(head)),
                         __ATOMIC_RELAXED);
    }
}

size_t hf_large_cache_kept(void)
{
    return __atomic_load_n(&bytes.kept[0], __ATOMIC_RELAXED) +
           __atomic_load_n(&bytes.kept[1], __ATOMIC_RELAXED);
}

size_t hf_large_cache_live(void)
{
    const size_t held = __atomic_load_n(&bytes.held, __ATOMIC_RELAXED),
                 kept = hf_large_cache_kept();
    return held > kept ? held - kept : 0;
}
