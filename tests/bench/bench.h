/*
 * What the benchmark programs share: pinning, clocks, medians, and the two ways to end.
 *
 * A program takes its sample, prints one "name value" pair a line, and ends; bench.py starts it
 * many times, in turn with its rivals, and compares the medians. The programs never link homefree:
 * it arrives late, by dlopen(), because that is the case that is hard.
 */
#ifndef HOMEFREE_TESTS_BENCH_BENCH_H
#define HOMEFREE_TESTS_BENCH_BENCH_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* Exit status if a library to be measured is not installed. */
#define BENCH_SKIPPED 77

/* Exit status if something else on the machine disturbed the sample. */
#define BENCH_DISTURBED 75

/* Prints the reason on stderr and exits with 1. */
__attribute__((noreturn, format(printf, 1, 2))) void bench_fail(const char *format, ...);

/* Pins the calling thread to one of the processors that the process may use; `index` counts these
 * and wraps around. */
void bench_pin(size_t index);

/* The clock's time. CLOCK_THREAD_CPUTIME_ID, for the work of one thread, leaves out the time that
 * others had the core. */
double bench_nanoseconds(clockid_t clock);

/* The median. Sorts the values. */
double bench_median(double *values, size_t count);

/* The least of the values: the least disturbed repeat within one process. A busy machine makes work
 * slower, also in processor time, and never faster. */
double bench_least(const double *values, size_t count);

/* Opens a shared object, or ends with bench_fail(). */
void *bench_open(const char *path, int mode);

/* Returns the address of a symbol, never NULL. */
void *bench_symbol(void *handle, const char *name);

/* Ends with BENCH_SKIPPED if soname is not loaded; ld.so only warns about a missing preload. */
void bench_require_loaded(const char *soname);

/* Returns the value of an argument "--name VALUE", or preset if there is none. */
const char *bench_argument(int argc, char **argv, const char *name, const char *preset);
long bench_number(int argc, char **argv, const char *name, long preset);

#endif
