/*
 * Measures a pair of allocating and freeing, for sizes from 256 bytes to 64 MiB: one sample of one
 * rival (space_rivals.h has the arguments that choose it).
 *
 *   space_pairs --how NAME [--library FILE] [--runtime FILE] [--cpu N] [--repeats N]
 *               [--only SIZE --count N]
 *
 * --only  makes exactly --count pairs of SIZE bytes and measures nothing: spaces.py counts their
 *         instructions under callgrind
 *
 * Prints nanoseconds a pair by the thread's processor time, the least of the repeats, for each
 * size. Calls that wait for a device sleep in the driver: for those, `real.SIZE` is the time on the
 * wall.
 */
#include "bench.h"
#include "space_rivals.h"

#include <stdio.h>

enum { REPEATS_MAX = 401, WARM = 8 };

#define SMALLEST ((size_t)256)
#define LARGEST  ((size_t)64 << 20)
#define REPEAT   300e3 /* nanoseconds */

static void pairs(const struct rival *rival, size_t size, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *block = rival->take(size, NULL);
        if (block == NULL)
            bench_fail("%s has no room for %zu bytes", rival->name, size);
        rival->give(block, rival->done);
    }
}

static void measure(const struct rival *rival, size_t size, size_t repeats)
{
    double cpu[REPEATS_MAX], real[REPEATS_MAX];
    size_t count = WARM;
    pairs(rival, size, count);
    /* As many pairs a repeat as take about REPEAT. */
    for (double took = 0; count < (1 << 16); count *= 2) {
        double began = bench_nanoseconds(CLOCK_MONOTONIC);
        pairs(rival, size, count);
        took = bench_nanoseconds(CLOCK_MONOTONIC) - began;
        if (took > REPEAT)
            break;
    }
    for (size_t i = 0; i < repeats; i++) {
        double began = bench_nanoseconds(CLOCK_MONOTONIC);
        double busy = bench_nanoseconds(CLOCK_THREAD_CPUTIME_ID);
        pairs(rival, size, count);
        cpu[i] = (bench_nanoseconds(CLOCK_THREAD_CPUTIME_ID) - busy) / (double)count;
        real[i] = (bench_nanoseconds(CLOCK_MONOTONIC) - began) / (double)count;
    }
    printf("pair.%zu %.4f\n", size, bench_least(cpu, repeats));
    printf("real.%zu %.4f\n", size, bench_least(real, repeats));
}

int main(int argc, char **argv)
{
    size_t repeats = (size_t)bench_number(argc, argv, "--repeats", 21);
    size_t only = (size_t)bench_number(argc, argv, "--only", 0);
    if (repeats == 0 || repeats > REPEATS_MAX)
        bench_fail("usage: see the head of space_pairs.c");
    bench_pin((size_t)bench_number(argc, argv, "--cpu", 0));
    const struct rival *rival = rival_open(argc, argv);
    if (only != 0) {
        pairs(rival, only, (size_t)bench_number(argc, argv, "--count", WARM));
        return 0;
    }
    for (size_t size = SMALLEST; size <= LARGEST; size *= 4)
        measure(rival, size, repeats);
    return 0;
}
