/* Under RLIMIT_AS the region takes at most half of the address space that the process may have;
 * if not even the smallest region fits, a message says so. */
#include "alloc/heap/internal.h"
#include "alloc/heap/region.h"
#include "death.h"
#include "suite.h"

#include <errno.h>
#include <homefree/homefree.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define MIB ((size_t)1 << 20)

static void limit_to(size_t size)
{
    const struct rlimit limit = {size, size};
    must(setrlimit(RLIMIT_AS, &limit) == 0);
}

static void takes_at_most_half(void *context)
{
    size_t limit = *(size_t *)context;
    limit_to(limit);
    must(hf_region_reserve((size_t)16 << 40) == 0);
    must(hf_region.size <= limit / 2);
    must(hf_region.size > limit / 8);
}

static void leaves_a_small_wish_alone(void *unused)
{
    (void)unused;
    limit_to(512 * MIB);
    must(hf_region_reserve(32 * MIB) == 0);
    must(hf_region.size == 32 * MIB);
}

static void fails_when_there_is_no_room(void *unused)
{
    (void)unused;
    limit_to(12 * MIB);
    must(hf_region_reserve((size_t)16 << 40) == -ENOMEM);
    must(hf_region.size == 0);
    must(!hf_owned(&unused));
}

/* The limit falls below what is mapped; pages can still be given back and mapped again. */
static void gives_back_under_a_lowered_limit(void *unused)
{
    (void)unused;
    must(hf_region_reserve(64 * MIB) == 0);
    char *p = hf_region_map(NULL, 32 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
    must(p != MAP_FAILED);
    p[0] = p[32 * MIB - 1] = 1;
    limit_to(MIB);
    must(mmap(NULL, MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
    must(hf_region_unmap(p, 32 * MIB) == 0);
    must(hf_region_map(NULL, 32 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS) == p);
    must(p[0] == 0 && p[32 * MIB - 1] == 0);
}

static void run(void (*body)(void *), void *context)
{
    assert_succeeds(outcome_of_call(body, context));
}

START_TEST(half)
{
    size_t limits[] = {128 * MIB, 512 * MIB, 3000 * MIB, 20000 * MIB};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        run(takes_at_most_half, &limits[i]);
}
END_TEST

START_TEST(small)
{
    run(leaves_a_small_wish_alone, NULL);
}
END_TEST

START_TEST(none)
{
    run(fails_when_there_is_no_room, NULL);
}
END_TEST

START_TEST(lowered)
{
    run(gives_back_under_a_lowered_limit, NULL);
}
END_TEST

int main(void)
{
    return RUN_SUITE(half, small, none, lowered);
}
