/* Virtual arenas (satellites/cuda/varena/varena.h) alone, on addresses that nobody may touch:
 * blocks do not overlap, each claim of what is no live block fails, large blocks have exactly their
 * size and go where memory is, and all that was given back is one range again. Each test runs in a
 * child. */
#include "death.h"
#include "satellites/cuda/varena/varena.h"
#include "suite.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define GRANULE HF_VARENA_GRANULE
enum { GRANULES = 256, PAGE = 1 << HF_LG_PAGE };

/* ---- a space ---- */

static struct hf_varena_area area;
static uintptr_t base;
static size_t top;
static bool is_backed[GRANULES];

static void *grow(void *space, size_t size)
{
    must(space == &base && size % GRANULE == 0);
    if (size > GRANULES * GRANULE - top)
        return NULL;
    top += size;
    return (void *)(base + top - size);
}

static size_t lacks(void *space, const void *at, size_t size, size_t most)
{
    size_t bytes = 0;
    must(space == &base && size > 0);
    for (size_t i = ((uintptr_t)at - base) / GRANULE;
         i <= ((uintptr_t)at - base + size - 1) / GRANULE && bytes <= most; i++)
        bytes += is_backed[i] ? 0 : GRANULE;
    return bytes;
}

static struct hf_varena *start(void)
{
    void *at = mmap(NULL, (GRANULES + 1) * GRANULE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(at != MAP_FAILED);
    base = ((uintptr_t)at + GRANULE - 1) & -GRANULE;
    must(hf_varena_area_open(&area, base, GRANULES * GRANULE));
    hf_varenas_start();
    struct hf_varena *varena = hf_varena_open(&area, grow, lacks, &base);
    must(varena != NULL);
    return varena;
}

static void sum(void *context, void *at, size_t size)
{
    (void)at;
    *(size_t *)context += size;
}

static size_t free_bytes(struct hf_varena *varena)
{
    size_t bytes = 0;
    hf_varena_each_free(varena, sum, &bytes);
    return bytes;
}

/* All that the space gave is free again. */
static void must_be_empty(struct hf_varena *varena)
{
    hf_varena_empty(varena);
    must(hf_varena_small(varena) == 0);
    must(free_bytes(varena) == top);
}

/* ---- blocks ---- */

struct block {
    char *at;
    size_t size;
};

static struct block take(struct hf_varena *varena, size_t size)
{
    struct block block = {.size = size};
    if (size <= HF_VARENA_CACHED) {
        block.at = hf_varena_take(varena, size);
    } else {
        block.at = hf_varena_take_pages(varena, size, 1);
        if (block.at == NULL && hf_varena_add(varena, size))
            block.at = hf_varena_take_pages(varena, size, 1);
    }
    return block;
}

static bool give(struct hf_varena *varena, struct block block)
{
    if (!hf_varena_claim(&area, block.at))
        return false;
    if (block.size <= HF_VARENA_CACHED)
        hf_varena_give(varena, block.at);
    else
        hf_varena_give_pages(varena, block.at, true);
    return true;
}

static size_t some_size(unsigned *seed)
{
    const size_t number = (size_t)rand_r(seed);
    return number % 8 != 0 ? (number / 8 % 128 + 1) * HF_VARENA_ALIGNMENT
                           : (size_t)HF_VARENA_CACHED + (number / 8 % 200 + 1) * PAGE;
}

/* The block is found by its first and its last byte, and cannot be claimed but by its first. */
static void look(struct block block)
{
    const struct hf_varena_block first = hf_varena_find(&area, block.at);
    const struct hf_varena_block last = hf_varena_find(&area, block.at + block.size - 1);
    must(first.at == block.at && last.at == block.at && !first.was_freed);
    must(first.size == last.size && first.small == (block.size <= HF_VARENA_CACHED));
    must(first.size >= block.size && first.size - block.size <= block.size / 8);
    must(first.size == block.size || (first.small && block.size > 4096));
    for (size_t inside = 128; inside < block.size; inside = 2 * inside + 128)
        must(!hf_varena_claim(&area, block.at + inside));
}

static void blocks_do_not_overlap(void *unused)
{
    enum { BLOCKS = 600, ROUNDS = 60 * BLOCKS };
    static struct block blocks[BLOCKS];
    static uint8_t used[GRANULES * (HF_VARENA_GRANULE / HF_VARENA_ALIGNMENT)];
    struct hf_varena *varena = start();
    unsigned seed = 1;
    (void)unused;
    for (int round = 0; round < ROUNDS; round++) {
        struct block *block = &blocks[(size_t)rand_r(&seed) % BLOCKS];
        const bool takes = block->at == NULL;
        if (takes) {
            *block = take(varena, some_size(&seed));
            must(block->at != NULL && (uintptr_t)block->at % HF_VARENA_ALIGNMENT == 0);
            look(*block);
        }
        const size_t at = ((uintptr_t)block->at - base) / HF_VARENA_ALIGNMENT;
        for (size_t i = 0; i < block->size / HF_VARENA_ALIGNMENT; i++) {
            must(used[at + i] == !takes);
            used[at + i] = takes;
        }
        if (!takes) {
            must(give(varena, *block));
            must(!give(varena, *block));
            must(hf_varena_find(&area, block->at).was_freed);
            block->at = NULL;
        }
        if (round % 5000 == 0)
            hf_varena_empty(varena);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        must(blocks[i].at == NULL || give(varena, blocks[i]));
    must_be_empty(varena);
}

static void what_was_never_allocated_is_no_block(void *unused)
{
    struct hf_varena *varena = start();
    (void)unused;
    must(!hf_varena_claim(&area, (void *)base) && hf_varena_find(&area, (void *)base).at == NULL);
    struct block small = take(varena, 512), large = take(varena, (size_t)40 << 10);
    must(!hf_varena_claim(&area, (void *)(base + top - PAGE)) &&
         !hf_varena_claim(&area, large.at + large.size));
    must(hf_varena_find(&area, large.at + large.size).at == NULL);
    must(hf_varena_find(&area, (void *)(base + top)).at == NULL);
    must(give(varena, small) && give(varena, large));
}

static void large_blocks_go_where_memory_is(void *unused)
{
    struct hf_varena *varena = start();
    (void)unused;
    must(hf_varena_take_pages(varena, GRANULE, 1) == NULL);
    must(hf_varena_add(varena, 8 * GRANULE));
    char *first = hf_varena_take_pages(varena, 2 * GRANULE, GRANULE);
    char *second = hf_varena_take_pages(varena, 2 * GRANULE, GRANULE);
    char *third = hf_varena_take_pages(varena, GRANULE, GRANULE);
    must(first == (char *)base && second == first + 2 * GRANULE);
    must(third == second + 2 * GRANULE);
    /* The last one freed of its size comes first. */
    must(hf_varena_claim(&area, first) && hf_varena_claim(&area, second));
    hf_varena_give_pages(varena, second, true);
    hf_varena_give_pages(varena, first, true);
    must(hf_varena_take_pages(varena, 2 * GRANULE, 1) == first);
    must(hf_varena_take_pages(varena, 2 * GRANULE, 1) == second);
    /* The range that would fit best lacks memory. */
    must(hf_varena_claim(&area, second));
    hf_varena_give_pages(varena, second, false);
    is_backed[7] = true;
    must(hf_varena_take_pages(varena, 2 * GRANULE, 1) == second);
    is_backed[6] = true;
    must(hf_varena_claim(&area, second));
    hf_varena_give_pages(varena, second, false);
    is_backed[5] = true;
    must(hf_varena_take_pages(varena, 2 * GRANULE, 1) == (char *)base + 5 * GRANULE);
    must(hf_varena_claim(&area, first) && hf_varena_claim(&area, third));
    hf_varena_give_pages(varena, first, false);
    hf_varena_give_pages(varena, third, false);
    must(free_bytes(varena) == 6 * GRANULE);
}

/* What the space gave apart never merges: the runtime copies no range of two registrations. */
static void ranges_stay_apart(void *unused)
{
    struct hf_varena *varena = start();
    (void)unused;
    must(hf_varena_add(varena, 2 * GRANULE) && hf_varena_add(varena, 2 * GRANULE));
    must(hf_varena_take_pages(varena, 3 * GRANULE, 1) == NULL);
    char *first = hf_varena_take_pages(varena, 2 * GRANULE, 1);
    char *second = hf_varena_take_pages(varena, 2 * GRANULE, 1);
    must(hf_varena_claim(&area, second) && hf_varena_claim(&area, first));
    hf_varena_give_pages(varena, second, false);
    hf_varena_give_pages(varena, first, false);
    must(hf_varena_take_pages(varena, 3 * GRANULE, 1) == NULL);
    must(free_bytes(varena) == 4 * GRANULE);
}

/* ---- threads ---- */

enum { SHARED = 64, THREADS = 4, TURNS = 20000 };
static struct hf_varena *shared_varena;
static char *shared[SHARED];
static unsigned given, taken;
static pthread_barrier_t barrier;

/* Threads exchange blocks, and each tries to free those of others twice. */
static void *exchange(void *context)
{
    unsigned seed = (unsigned)(uintptr_t)context;
    for (int turn = 0; turn < TURNS; turn++) {
        const size_t size = ((size_t)rand_r(&seed) % 20 + 1) * HF_VARENA_ALIGNMENT;
        char **place = &shared[(size_t)rand_r(&seed) % SHARED];
        char *block = hf_varena_take(shared_varena, size);
        must(block != NULL);
        __atomic_add_fetch(&taken, 1, __ATOMIC_RELAXED);
        block = __atomic_exchange_n(place, block, __ATOMIC_ACQ_REL);
        if (block != NULL && hf_varena_claim(&area, block)) {
            must(!hf_varena_claim(&area, block));
            hf_varena_give(shared_varena, block);
            __atomic_add_fetch(&given, 1, __ATOMIC_RELAXED);
        }
    }
    (void)pthread_barrier_wait(&barrier); /* so that each has stacks of its own */
    return NULL;
}

static void threads_exchange_blocks(void *unused)
{
    pthread_t threads[THREADS];
    (void)unused;
    shared_varena = start();
    must(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
    for (size_t i = 0; i < THREADS; i++)
        must(pthread_create(&threads[i], NULL, exchange, (void *)(i + 1)) == 0);
    for (size_t i = 0; i < THREADS; i++)
        must(pthread_join(threads[i], NULL) == 0);
    for (size_t i = 0; i < SHARED; i++)
        if (shared[i] != NULL) {
            must(hf_varena_claim(&area, shared[i]));
            hf_varena_give(shared_varena, shared[i]);
            given++;
        }
    must(given == taken);
    must_be_empty(shared_varena);
}

static char *raced;
static unsigned wins;

static void *race(void *unused)
{
    (void)unused;
    for (int turn = 0; turn < TURNS / 10; turn++) {
        (void)pthread_barrier_wait(&barrier);
        if (hf_varena_claim(&area, raced))
            __atomic_add_fetch(&wins, 1, __ATOMIC_RELAXED);
        (void)pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static void one_of_two_frees_wins(void *unused)
{
    pthread_t threads[2];
    (void)unused;
    shared_varena = start();
    must(pthread_barrier_init(&barrier, NULL, 3) == 0);
    for (size_t i = 0; i < 2; i++)
        must(pthread_create(&threads[i], NULL, race, NULL) == 0);
    for (unsigned turn = 0; turn < TURNS / 10; turn++) {
        const struct block block = take(shared_varena, turn % 2 == 0 ? 256 : (size_t)64 << 10);
        raced = block.at;
        (void)pthread_barrier_wait(&barrier);
        (void)pthread_barrier_wait(&barrier);
        must(wins == turn + 1);
        if (turn % 2 == 0)
            hf_varena_give(shared_varena, raced);
        else
            hf_varena_give_pages(shared_varena, raced, true);
    }
    for (size_t i = 0; i < 2; i++)
        must(pthread_join(threads[i], NULL) == 0);
    must_be_empty(shared_varena);
}

#define IN_CHILD(name)                                \
    START_TEST(test_##name)                           \
    {                                                 \
        assert_succeeds(outcome_of_call(name, NULL)); \
    }                                                 \
    END_TEST
IN_CHILD(blocks_do_not_overlap)
IN_CHILD(what_was_never_allocated_is_no_block)
IN_CHILD(large_blocks_go_where_memory_is)
IN_CHILD(ranges_stay_apart)
IN_CHILD(threads_exchange_blocks)
IN_CHILD(one_of_two_frees_wins)

int main(void)
{
    return RUN_SUITE(test_blocks_do_not_overlap, test_what_was_never_allocated_is_no_block,
                     test_large_blocks_go_where_memory_is, test_ranges_stay_apart,
                     test_threads_exchange_blocks, test_one_of_two_frees_wins);
}
