/*
 * Measures the threads' churn (work_churn.c) inside a module that is loaded into this running
 * process: one sample of row 6 of the table.
 *
 *   churn --module FILE [--preloaded SONAME] [--threads N] [--operations N]
 *
 * Threads are pinned to the processors in turn. Prints nanoseconds an operation, in real time
 * (churn.real) and in processor time of all threads (churn.cpu), which other processes on the
 * machine disturb less.
 */
#include "bench.h"
#include "work.h"

#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    const char *preloaded = bench_argument(argc, argv, "--preloaded", NULL);
    const char *path = bench_argument(argc, argv, "--module", NULL);
    size_t threads = (size_t)bench_number(argc, argv, "--threads", 4);
    size_t operations = (size_t)bench_number(argc, argv, "--operations", 1000000);
    if (path == NULL || threads == 0 || operations == 0)
        bench_fail("usage: see the head of churn.c");
    if (preloaded != NULL)
        bench_require_loaded(preloaded);
    void *module = bench_open(path, RTLD_NOW | RTLD_LOCAL);
    work_churn_function *churn = (work_churn_function *)bench_symbol(module, "work_churn");
    /* Taken once, before any thread is pinned. */
    double cpu, total = (double)(threads * operations);
    double real = churn(threads, operations, bench_pin, &cpu);
    printf("churn.real %.4f\n", real / total);
    printf("churn.cpu %.4f\n", cpu / total);
    return 0;
}
