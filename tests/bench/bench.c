/*
 * What the benchmark programs share; see bench.h.
 */
#include "bench.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bench_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

void bench_pin(size_t index)
{
    static cpu_set_t allowed;
    static int count;
    if (count == 0) {
        if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
            bench_fail("sched_getaffinity failed");
        count = CPU_COUNT(&allowed);
    }
    int wanted = (int)(index % (size_t)count);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || wanted-- != 0)
            continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (sched_setaffinity(0, sizeof one, &one) != 0)
            bench_fail("sched_setaffinity to processor %d failed", cpu);
    }
}

double bench_nanoseconds(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return count % 2 != 0 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

double bench_least(const double *values, size_t count)
{
    double least = values[0];
    for (size_t i = 1; i < count; i++)
        least = values[i] < least ? values[i] : least;
    return least;
}

void *bench_open(const char *path, int mode)
{
    void *handle = dlopen(path, mode);
    if (handle == NULL)
        bench_fail("cannot load: %s", dlerror());
    return handle;
}

void *bench_symbol(void *handle, const char *name)
{
    void *address = dlsym(handle, name);
    if (address == NULL)
        bench_fail("no symbol %s: %s", name, dlerror());
    return address;
}

void bench_require_loaded(const char *soname)
{
    if (dlopen(soname, RTLD_LAZY | RTLD_NOLOAD) != NULL)
        return;
    fprintf(stderr, "%s is not loaded\n", soname);
    exit(BENCH_SKIPPED);
}

const char *bench_argument(int argc, char **argv, const char *name, const char *preset)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return preset;
}

long bench_number(int argc, char **argv, const char *name, long preset)
{
    const char *value = bench_argument(argc, argv, name, NULL);
    return value != NULL ? strtol(value, NULL, 10) : preset;
}
