/*
 * The face of the modules that do the measured work. One set of sources is built twice: with the
 * shim and libhomefree ("with_homefree") and without both ("plain", whose malloc and free are the
 * process's, whichever those are), so that the two differ in nothing but the allocator they reach.
 */
#ifndef HOMEFREE_TESTS_BENCH_WORK_H
#define HOMEFREE_TESTS_BENCH_WORK_H

#include <stddef.h>

#define WORK_API __attribute__((visibility("default")))

/* Blocks that are live at once in work_batches(). */
#define WORK_BATCH 64

/* Calls malloc(the next size) and free `count` times. One block is live at a time. */
typedef void work_pairs_function(const size_t *sizes, size_t size_count, size_t count);
WORK_API work_pairs_function work_pairs;

/* Makes `count` pairs, WORK_BATCH at a time: allocates a batch, then frees it in the same order. */
typedef void work_batches_function(const size_t *sizes, size_t size_count, size_t count);
WORK_API work_batches_function work_batches;

/* The module's malloc and free, which show the allocator that it uses. */
typedef void *work_take_function(size_t size);
WORK_API work_take_function work_take;
typedef void work_give_function(void *ptr);
WORK_API work_give_function work_give;

/* Larson-like churn: each thread owns slots and replaces the block in a random one by a new one of
 * 16 to 1024 bytes, `operations` times. It frees seven of eight replaced blocks; the eighth goes to
 * another thread (the next one, unless that is behind), which frees it. Each thread calls
 * pin(index) at its start. Result: nanoseconds of real time, and of processor time in *cpu, from
 * the moment when every thread was warm until the last one was done. */
typedef double work_churn_function(size_t threads, size_t operations, void (*pin)(size_t),
                                   double *cpu);
WORK_API work_churn_function work_churn;

#endif
