/*
 * Measures routing: row 5 of the table.
 *
 *   routing [--cpu N] --library LIBHOMEFREE --last FILE OBJECT...
 *
 * Loads every OBJECT, then libhomefree, whose constructor routes them all, and asks it how long
 * that took. Then: a pass with nothing new, in the running process, and whether one new object
 * (--last) is routed. libhomefree's clock goes on while another process has the core: a run in
 * which that happened is not a sample, and ends with 75.
 *
 * Prints route.objects, route.changed, and nanoseconds: route.all, route.nothing.
 */
#include "bench.h"

#include <homefree/homefree.h>

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { CALLS = 201 };

typedef int route_function(void);
typedef int report_function(struct hf_route_report *out, hf_route_visitor *visit, void *context);

static report_function *report;

static struct hf_route_report ask(void)
{
    struct hf_route_report sums = {.size = sizeof sums};
    if (report(&sums, NULL, NULL) != 0)
        bench_fail("hf_route_report failed");
    return sums;
}

/* Involuntary context switches of this thread. */
static long preemptions(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

int main(int argc, char **argv)
{
    const char *library = bench_argument(argc, argv, "--library", NULL);
    const char *last = bench_argument(argc, argv, "--last", NULL);
    if (library == NULL || last == NULL)
        bench_fail("usage: see the head of routing.c");
    bench_pin((size_t)bench_number(argc, argv, "--cpu", 0));
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) == 0)
            i++;
        else
            bench_open(argv[i], RTLD_LAZY | RTLD_LOCAL);
    }
    sched_yield(); /* begins with a fresh time slice */
    long before_load = preemptions();
    void *handle = bench_open(library, RTLD_NOW | RTLD_LOCAL);
    if (preemptions() != before_load)
        return BENCH_DISTURBED;
    route_function *route = (route_function *)bench_symbol(handle, "hf_route");
    report = (report_function *)bench_symbol(handle, "hf_route_report");
    struct hf_route_report all = ask();
    if (all.passes != 1)
        bench_fail("routing took %llu passes instead of one", (unsigned long long)all.passes);

    double samples[CALLS];
    for (size_t i = 0; i < CALLS; i++) {
        double began = bench_nanoseconds(CLOCK_THREAD_CPUTIME_ID);
        int changed = route();
        samples[i] = bench_nanoseconds(CLOCK_THREAD_CPUTIME_ID) - began;
        if (changed != 0)
            bench_fail("hf_route() returned %d although nothing was loaded", changed);
    }

    struct hf_route_report before = ask();
    bench_open(last, RTLD_LAZY | RTLD_LOCAL);
    route(); /* in case the dlopen was not routed */
    struct hf_route_report after = ask();
    if (after.changed <= before.changed)
        bench_fail("the new object was not routed");
    printf("route.objects %llu\n", (unsigned long long)all.objects);
    printf("route.changed %llu\n", (unsigned long long)all.changed);
    printf("route.all %llu\n", (unsigned long long)all.nanoseconds);
    printf("route.nothing %.1f\n", bench_median(samples, CALLS));
    return 0;
}
