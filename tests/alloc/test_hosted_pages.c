/* Pages that the region lends to a hosted allocator, alone, with private symbols: they are zero,
 * any part of them can be taken back, and the rest stays as it is, also while the process forks. */
#include "alloc/base/libc_functions.h"
#include "alloc/base/seal.h"
#include "alloc/heap/fork_gate.h"
#include "alloc/heap/front_end.h"
#include "alloc/heap/region.h"
#include "alloc/owner/hosted.h"
#include "alloc/trace/watch.h"
#include "death.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define GRANULE  HF_HOSTED_GRANULE
#define PAGE     ((size_t)1 << HF_LG_PAGE)
#define SIZE     (8 * GRANULE)
#define WRITABLE (PROT_READ | PROT_WRITE)

static const struct hf_hosted one, other;

static bool holds(const char *start, size_t size, char value)
{
    for (size_t i = 0; i < size; i += PAGE / 2)
        if (start[i] != value)
            return false;
    return true;
}

static char *lend(const struct hf_hosted *hosted)
{
    char *at = hf_hosted_map(hosted, SIZE, SIZE, WRITABLE);
    must(at != NULL && (uintptr_t)at % SIZE == 0 && holds(at, SIZE, 0));
    memset(at, 1, SIZE);
    return at;
}

static void parts(void *unused)
{
    (void)unused;
    must(hf_region_reserve((size_t)1 << 30) == 0);
    char *at = lend(&one), *next = lend(&other);
    const size_t used = hf_region_used();
    /* Inside of a granule, and the ends of two with whole ones between them. */
    hf_hosted_unmap(at + PAGE, PAGE);
    must(hf_region_used() == used && hf_hosted_of(at + PAGE) == &one);
    must(at[0] == 1 && holds(at + 2 * PAGE, GRANULE - 2 * PAGE, 1));
    must(mprotect(at + PAGE, PAGE, WRITABLE) == 0 && holds(at + PAGE, PAGE, 0));
    hf_hosted_unmap(at + 2 * GRANULE - PAGE, 3 * GRANULE + 2 * PAGE);
    must(hf_region_used() == used - 3 * GRANULE);
    must(hf_hosted_of(at + 2 * GRANULE - 1) == &one && hf_hosted_of(at + 2 * GRANULE) == NULL);
    must(hf_hosted_of(at + 5 * GRANULE - 1) == NULL && hf_hosted_of(at + 5 * GRANULE) == &one);
    must(holds(at + GRANULE, GRANULE - PAGE, 1));
    must(holds(at + 5 * GRANULE + PAGE, 3 * GRANULE - PAGE, 1));
    must(holds(next, SIZE, 1) && hf_hosted_of(next) == &other);
    /* What was taken back is lent again, and is zero again. */
    char *again = hf_hosted_map(&other, 3 * GRANULE, GRANULE, WRITABLE);
    must(again == at + 2 * GRANULE && holds(again, 3 * GRANULE, 0));
    must(hf_hosted_of(again) == &other);
}

static void forking(void *unused)
{
    (void)unused;
    must(hf_region_reserve((size_t)1 << 30) == 0);
    char *at = lend(&one);
    const size_t used = hf_region_used();
    must(mprotect(at, SIZE, PROT_NONE) == 0);
    hf_gate_close();
    must(hf_hosted_map(&one, GRANULE, GRANULE, WRITABLE) == NULL);
    hf_hosted_unmap(at, 2 * GRANULE + PAGE);
    must(hf_hosted_of(at) == NULL && hf_region_used() == used);
    hf_gate_open_in_parent();
    hf_hosted_catch_up();
    must(hf_region_used() == used - 2 * GRANULE);
}

static void add(const void *start, size_t size, void *context)
{
    size_t *sum = context;
    sum[0] += size;
    sum[1]++;
    must(hf_hosted_of(start) == &one);
}

static void visited(void *unused)
{
    (void)unused;
    size_t sum[2] = {0, 0};
    must(hf_region_reserve((size_t)1 << 30) == 0);
    hf_hosted_visit(&one, add, sum);
    must(sum[1] == 0);
    char *first = lend(&one);
    (void)lend(&other);
    (void)lend(&one);
    hf_hosted_unmap(first + GRANULE, GRANULE);
    hf_hosted_visit(&one, add, sum);
    must(sum[0] == 2 * SIZE - GRANULE && sum[1] == 3);
}

static void unprotected(void *unused)
{
    (void)unused;
    must(hf_region_reserve((size_t)1 << 30) == 0);
    char *at = hf_hosted_map(&one, SIZE, SIZE, PROT_NONE);
    must(at != NULL && hf_hosted_of(at) == &one);
    must(mprotect(at, PAGE, WRITABLE) == 0 && holds(at, PAGE, 0));
    hf_hosted_unmap(at, SIZE);
    must(hf_region_used() == 0);
}

/* What the units use of others. */
const struct hf_libc hf_libc_functions;
bool hf_watching;
void hf_watch_freed_foreign(const void *ptr, size_t size, const char *object, const void *caller,
                            bool freed)
{
    (void)ptr, (void)size, (void)object, (void)caller, (void)freed;
}
bool hf_seal_open(struct hf_seal *seal)
{
    (void)seal;
    return true;
}
void hf_seal_close(const struct hf_seal *seal)
{
    (void)seal;
}
void hf_libc_spare_grown(void)
{
}

void hf_heap_fatal_memory(void)
{
    must(!"out of memory");
    abort();
}

START_TEST(pages)
{
    void (*const bodies[])(void *) = {parts, forking, visited, unprotected};
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++)
        assert_succeeds(outcome_of_call(bodies[i], NULL));
}
END_TEST

int main(void)
{
    return RUN_SUITE(pages);
}
