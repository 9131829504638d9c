/*
 * Measures fork(2) in a process that does nothing else: the time until the child, which ends at
 * once, has been waited for.
 *
 *   forking [--cpu N] [--forks N] [--library LIBHOMEFREE] [--preloaded SONAME]
 *
 * --library    opened late, as install() does
 *
 * Prints fork.whole in nanoseconds, the median of many.
 */
#include "bench.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKS_MAX = 1000 };

int main(int argc, char **argv)
{
    static double times[FORKS_MAX];
    const char *library = bench_argument(argc, argv, "--library", NULL);
    const char *preloaded = bench_argument(argc, argv, "--preloaded", NULL);
    if (preloaded != NULL)
        bench_require_loaded(preloaded);
    const long forks = bench_number(argc, argv, "--forks", 400);
    if (forks < 1 || forks > FORKS_MAX)
        bench_fail("--forks is from 1 to %d", FORKS_MAX);
    bench_pin((size_t)bench_number(argc, argv, "--cpu", 0));
    if (library != NULL)
        bench_open(library, RTLD_NOW | RTLD_GLOBAL);
    free(malloc(100));
    for (int i = 0; i < forks; i++) {
        const double before = bench_nanoseconds(CLOCK_MONOTONIC);
        const pid_t child = fork();
        if (child == 0)
            _exit(0);
        if (child < 0 || waitpid(child, NULL, 0) != child)
            bench_fail("fork failed");
        times[i] = bench_nanoseconds(CLOCK_MONOTONIC) - before;
    }
    printf("fork.whole %.0f\n", bench_median(times, (size_t)forks));
    return 0;
}
