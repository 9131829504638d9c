/* Every block of the heap lies in the region, whatever its size, alignment, thread or process, and
 * nothing else does: that is what makes one range check enough. */
#include "death.h"
#include "heap.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define THREADS 8
#define STEPS   20000
#define LIVE    400

struct block {
    char *p;
    size_t size;
};

static size_t random_size(unsigned *seed)
{
    unsigned roll = (unsigned)rand_r(seed);
    if (roll % 2000 == 0)
        return (size_t)rand_r(seed) % (100 << 20);
    if (roll % 50 == 0)
        return (size_t)rand_r(seed) % (1 << 20);
    return (size_t)rand_r(seed) % 3000;
}

static char *allocate(unsigned *seed, size_t size)
{
    switch (rand_r(seed) % 6) {
    case 0:
        return hf_calloc(size < (1 << 20) ? size : 1, 1);
    case 1:
        return hf_aligned_alloc((size_t)16 << (rand_r(seed) % 17), size);
    case 2:
        return hf_realloc(hf_malloc(10), size + 1);
    default:
        return hf_malloc(size);
    }
}

static void *work(void *context)
{
    struct block live[LIVE] = {{NULL, 0}};
    unsigned seed = (unsigned)(size_t)context;
    for (int i = times(STEPS); i > 0; i--) {
        struct block *block = &live[(size_t)rand_r(&seed) % LIVE];
        hf_free(block->p);
        block->size = random_size(&seed);
        block->p = allocate(&seed, block->size);
        must(block->p != NULL);
        must(hf_owns(block->p));
        must(hf_owns(block->p + hf_usable_size(block->p) - 1));
    }
    for (size_t i = 0; i < LIVE; i++)
        hf_free(live[i].p);
    return NULL;
}

static void work_in_threads(void *context)
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        must(pthread_create(&threads[i], NULL, work, (char *)context + i) == 0);
    for (size_t i = 0; i < THREADS; i++)
        must(pthread_join(threads[i], NULL) == 0);
}

START_TEST(in_many_threads)
{
    work_in_threads((void *)1);
}
END_TEST

START_TEST(after_a_fork)
{
    hf_free(hf_malloc(1000));
    assert_succeeds(outcome_of_call(work_in_threads, (void *)100));
}
END_TEST

static int a_static;

START_TEST(nothing_else_is_owned)
{
    int on_stack;
    char *libcs = malloc(100), *large = malloc(10 << 20);
    char *mapped = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(mapped, MAP_FAILED);
    ck_assert(!hf_owns(NULL));
    ck_assert(!hf_owns((void *)-1));
    ck_assert(!hf_owns(&on_stack));
    ck_assert(!hf_owns(&a_static));
    ck_assert(!hf_owns("a literal"));
    ck_assert(!hf_owns((void *)(size_t)hf_malloc));
    ck_assert(!hf_owns(libcs));
    ck_assert(!hf_owns(large));
    ck_assert(!hf_owns(mapped));
    munmap(mapped, 1 << 20);
    free(libcs);
    free(large);
}
END_TEST

START_TEST(the_bounds_are_exact)
{
    const char *base = (const char *)hf_region_range.base;
    size_t size = hf_region_range.size;
    ck_assert_uint_le(size, stats_now().region_reserved);
    ck_assert(hf_owns(base));
    ck_assert(hf_owns(base + size - 1));
    ck_assert(!hf_owns(base - 1));
    ck_assert(!hf_owns(base + size));
    /* The exported function agrees with the inlined one. */
    bool (*volatile exported)(const void *) = hf_owns;
    ck_assert(exported(base));
    ck_assert(exported(base + size - 1));
    ck_assert(!exported(base - 1));
    ck_assert(!exported(base + size));
}
END_TEST

int main(void)
{
    return RUN_SUITE(in_many_threads, after_a_fork, nothing_else_is_owned, the_bounds_are_exact);
}
