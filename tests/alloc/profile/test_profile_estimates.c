/* What a profile estimates, by site and in all, is what there is: without bias for any size, for
 * what was allocated since it began and still lives. Bounds are six standard errors. */
#include "looking.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

enum { MEAN = 4096, BLOCKS = 40000, SITES = 4 };

/* Sites that the compiler keeps apart, one behind the other. */
#define SITE(name, allocated)                                \
    static __attribute__((noinline)) void *name(size_t size) \
    {                                                        \
        void *volatile block = allocated;                    \
        return block;                                        \
    }
SITE(by_malloc, hf_malloc(size))
SITE(by_calloc, hf_calloc(1, size))
SITE(by_realloc, hf_realloc(NULL, size))
SITE(by_memalign, hf_memalign(64, size))

static void *(*const sites[SITES])(size_t) = {by_malloc, by_calloc, by_realloc, by_memalign};
static void *blocks[SITES][BLOCKS];

/* From 16 bytes to 16 KiB in the sites' different shapes; now and then a large one. */
static size_t size_of(size_t site, size_t i)
{
    const uint64_t x = (i * SITES + site + 1) * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    if (x % 1000 == 0)
        return 100000 + x % 400000;
    return site == 0 ? 16 + x % 64 : site == 1 ? 100 + x % 1000 : 16 + x % (site == 2 ? 300 : 8000);
}

struct sum {
    double bytes, blocks, square_bytes, square_blocks; /* squares: of the standard errors */
};

static double probability(double size)
{
    double power = 1, sum = 0; /* 1 - exp(-size / MEAN), slowly */
    for (int i = 1; i < 200; i++) {
        power *= -(size / MEAN) / i;
        sum -= power;
    }
    return size / MEAN < 20 ? sum : 1;
}

static void expect(struct sum *sum, double size)
{
    const double p = probability(size), variance = (1 - p) / p;
    sum->bytes += size;
    sum->blocks += 1;
    sum->square_bytes += size * size * variance;
    sum->square_blocks += variance;
}

/* The site that the innermost frame is in; SITES: none. */
static size_t site_of(const struct hf_profile_sample *sample)
{
    enum { MOST = 256 };
    size_t found = SITES;
    uintptr_t nearest = MOST;
    for (size_t i = 0; sample->frames_count != 0 && i < SITES; i++) {
        const uintptr_t distance = (uintptr_t)sample->frames[0] - (uintptr_t)sites[i];
        if (distance < nearest) {
            nearest = distance;
            found = i;
        }
    }
    return found;
}

static int add(const struct hf_profile_sample *sample, void *context)
{
    struct sum *sums = context;
    const size_t site = site_of(sample);
    if (site != SITES) {
        sums[site].bytes += sample->weight_bytes;
        sums[site].blocks += sample->weight_blocks;
    }
    return 0;
}

static bool is_near(double estimate, double exact, double square)
{
    const double difference = estimate - exact;
    return difference * difference <= 36 * square;
}

static void compare(bool has_frames, size_t from)
{
    struct sum exact[SITES] = {{0}}, found[SITES] = {{0}}, all = {0};
    for (size_t site = 0; site < SITES; site++)
        for (size_t i = from; i < BLOCKS; i++) {
            expect(&exact[site], (double)size_of(site, i));
            expect(&all, (double)size_of(site, i));
        }
    const struct looked looked = look_for(NULL);
    must(is_near(looked.weight_bytes, all.bytes, all.square_bytes));
    must(is_near(looked.weight_blocks, all.blocks, all.square_blocks));
    must(all.square_bytes < all.bytes * all.bytes * 0.01 * 0.01); /* or the bounds say nothing */
    must(hf_profile_each(add, found) == 0);
    for (size_t site = 0; has_frames && site < SITES; site++) {
        must(is_near(found[site].bytes, exact[site].bytes, exact[site].square_bytes));
        must(is_near(found[site].blocks, exact[site].blocks, exact[site].square_blocks));
    }
}

START_TEST(test_estimates)
{
    ck_assert_int_eq(hf_profile_begin(MEAN), 0);
    for (size_t i = 0; i < BLOCKS; i++)
        for (size_t site = 0; site < SITES; site++)
            blocks[site][i] = sites[site](size_of(site, i));
    ck_assert_int_eq(hf_profile_end(), 0);
    const bool has_frames = look_for(NULL).last.frames_count != 0;
    compare(has_frames, 0);
    for (size_t i = 0; i < BLOCKS / 2; i++)
        for (size_t site = 0; site < SITES; site++)
            hf_free(blocks[site][i]);
    compare(has_frames, BLOCKS / 2);
    for (size_t i = BLOCKS / 2; i < BLOCKS; i++)
        for (size_t site = 0; site < SITES; site++)
            hf_free(blocks[site][i]);
    ck_assert_uint_eq(look_for(NULL).samples, 0);
}
END_TEST

/* The countdown of a thread that sampled rarely is not what it begins to sample often with. */
START_TEST(test_rates_change)
{
    enum { COUNT = 3000 };
    static void *some[COUNT];
    for (int round = 0; round < 20; round++) {
        ck_assert_int_eq(hf_profile_begin((size_t)1 << 30), 0);
        hf_free(hf_malloc(1000));
        ck_assert_int_eq(hf_profile_end(), 0);
        ck_assert_int_eq(hf_profile_begin(500), 0);
        for (size_t i = 0; i < COUNT; i++)
            some[i] = hf_malloc(1000);
        ck_assert_int_eq(hf_profile_end(), 0);
        const double found = look_for(NULL).weight_blocks;
        for (size_t i = 0; i < COUNT; i++)
            hf_free(some[i]);
        ck_assert(found > COUNT * 0.93 && found < COUNT * 1.07); /* one in 100: 0.7 % */
    }
}
END_TEST

int main(void)
{
    return RUN_SUITE(test_estimates, test_rates_change);
}
