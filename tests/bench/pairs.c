/*
 * Measures a malloc+free pair inside a module that is loaded into this running process: one sample
 * of rows 1 to 3 of the table.
 *
 *   pairs --module FILE [--preloaded SONAME] [--home yes] [--route LIBHOMEFREE]
 *         [--adopt LIBHOMEFREE] [--limit yes] [--cpu N] [--repeats N] [--only PATTERN --count N]
 *
 * --preloaded  the peer that must be here already; else the program ends with 77
 * --home       the module's blocks must be the heap's
 * --route      load libhomefree after the module, and check that it reached the module's free
 * --adopt      load libhomefree first, and the module from its adopted copy
 * --limit      the module has a limit, which it does not reach
 * --only       runs PATTERN (pair, batch) for exactly --count pairs and measures nothing: bench.py
 *              counts its instructions under callgrind
 *
 * Prints nanoseconds a pair, by the thread's processor time: the least of the repeats. Sizes are a
 * fixed pseudo-random mix of 16 to 512 bytes (pair.mix, batch.mix), and single sizes (pair.64, …).
 */
#include "bench.h"
#include "work.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { MIX = 61, SMALLEST = 16, LARGEST = 512, COUNT = 32 * 1024, REPEATS_MAX = 401 };

typedef bool owns_function(const void *ptr);
typedef void *malloc_function(size_t size);

static void fill_mix(size_t sizes[MIX])
{
    uint32_t random = 12345;
    for (size_t i = 0; i < MIX; i++) {
        random = random * 1664525 + 1013904223;
        sizes[i] = SMALLEST + (random >> 8) % (LARGEST - SMALLEST + 1);
    }
}

static double measure(work_pairs_function *work, const size_t *sizes, size_t size_count,
                      size_t repeats)
{
    double samples[REPEATS_MAX];
    work(sizes, size_count, COUNT);
    for (size_t i = 0; i < repeats; i++) {
        double began = bench_nanoseconds(CLOCK_THREAD_CPUTIME_ID);
        work(sizes, size_count, COUNT);
        samples[i] = (bench_nanoseconds(CLOCK_THREAD_CPUTIME_ID) - began) / COUNT;
    }
    return bench_least(samples, repeats);
}

/* Proves that the calls are routed: libc ends the process if its free() gets a block of the heap.
 */
static void check_routed(const char *library, work_give_function *give, owns_function **owns)
{
    void *handle = bench_open(library, RTLD_NOW | RTLD_LOCAL);
    malloc_function *take = (malloc_function *)bench_symbol(handle, "hf_malloc");
    *owns = (owns_function *)bench_symbol(handle, "hf_owns");
    give(take(100));
}

typedef int adopt_function(const char *path, char *out, size_t size);

static const char *adopted(const char *library, const char *path)
{
    static char copy[PATH_MAX];
    void *handle = bench_open(library, RTLD_NOW | RTLD_LOCAL);
    adopt_function *adopt = (adopt_function *)bench_symbol(handle, "hf_adopt_file");
    if (adopt(path, copy, sizeof copy) != 1)
        bench_fail("%s cannot be adopted: %s", path, copy);
    return copy;
}

typedef int limit_function(void **out, const char *path, uint64_t bytes, const void *options);

static void limit_to(void *module, const char *path)
{
    void *limit;
    limit_function *begin = (limit_function *)bench_symbol(module, "hf_limit_begin");
    const int error = begin(&limit, path, (uint64_t)1 << 40, NULL);
    if (error != 0)
        bench_fail("%s cannot have a limit: %d", path, error);
}

int main(int argc, char **argv)
{
    const char *preloaded = bench_argument(argc, argv, "--preloaded", NULL);
    const char *path = bench_argument(argc, argv, "--module", NULL);
    const char *library = bench_argument(argc, argv, "--route", NULL);
    const char *adopter = bench_argument(argc, argv, "--adopt", NULL);
    const char *only = bench_argument(argc, argv, "--only", NULL);
    size_t repeats = (size_t)bench_number(argc, argv, "--repeats", 41);
    bool home = bench_argument(argc, argv, "--home", NULL) != NULL;
    if (path == NULL || repeats == 0 || repeats > REPEATS_MAX)
        bench_fail("usage: see the head of pairs.c");
    bench_pin((size_t)bench_number(argc, argv, "--cpu", 0));
    if (preloaded != NULL)
        bench_require_loaded(preloaded);

    if (adopter != NULL)
        path = adopted(adopter, path);
    void *module = bench_open(path, RTLD_NOW | RTLD_LOCAL);
    work_pairs_function *pairs = (work_pairs_function *)bench_symbol(module, "work_pairs");
    work_batches_function *batches = (work_batches_function *)bench_symbol(module, "work_batches");
    work_take_function *take = (work_take_function *)bench_symbol(module, "work_take");
    work_give_function *give = (work_give_function *)bench_symbol(module, "work_give");
    owns_function *owns = home ? (owns_function *)bench_symbol(module, "hf_owns") : NULL;
    if (bench_argument(argc, argv, "--limit", NULL) != NULL)
        limit_to(module, path);
    if (library != NULL)
        check_routed(library, give, &owns);
    void *block = take(100);
    if (owns != NULL && owns(block) != home)
        bench_fail("the module's blocks are %sthe heap's", home ? "not " : "");
    give(block);

    size_t mix[MIX];
    fill_mix(mix);
    if (only != NULL) {
        size_t count = (size_t)bench_number(argc, argv, "--count", COUNT);
        (strcmp(only, "batch") == 0 ? batches : pairs)(mix, MIX, count);
        return 0;
    }
    measure(pairs, mix, MIX, repeats); /* warms up the core */
    printf("pair.mix %.4f\n", measure(pairs, mix, MIX, repeats));
    printf("batch.mix %.4f\n", measure(batches, mix, MIX, repeats));
    for (size_t size = SMALLEST; size <= LARGEST; size *= 2)
        printf("pair.%zu %.4f\n", size, measure(pairs, &size, 1, repeats / 2 + 1));
    return 0;
}
