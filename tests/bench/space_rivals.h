/*
 * Who can allocate in the benchmarks of spaces: homefree's spaces, its heap, libc, and the
 * functions of CUDA's runtime that a program would call instead. One rival a process, chosen by
 * --how; what it does not need is not loaded, so that homefree cannot be in CUDA's way.
 *
 *   --how NAME       pinned, device (hf_space_alloc), heap (hf_malloc), libc (malloc),
 *                    hostalloc (cudaHostAlloc), cudamalloc (cudaMalloc), async (cudaMallocAsync)
 *   --library FILE   libhomefree.so.1, for the first three
 *   --runtime FILE   the CUDA runtime (libcudart.so.13)
 */
#ifndef HOMEFREE_TESTS_BENCH_SPACE_RIVALS_H
#define HOMEFREE_TESTS_BENCH_SPACE_RIVALS_H

#include <stddef.h>
#include <stdint.h>

struct rival {
    const char *name;
    void *(*take)(size_t size, void *stream); /* NULL if there is no room */
    void (*give)(void *ptr, void *stream);
    /* What give() gets if nothing uses the block any more. */
    void *done;
};

/* The rival that the arguments name. Ends with BENCH_SKIPPED, and one line that says why, if there
 * is no runtime or no device for it. */
const struct rival *rival_open(int argc, char **argv);

/* A stream for a number of a trace: 0 is the default stream; others are made once. */
void *rival_stream(unsigned number);

/* Lets a double of CUDA go on, whose work is done only when somebody says so. A device does that by
 * itself, and nothing happens. */
void rival_go_on(void);

/* The most bytes that the rival has reserved so far; 0 if it does not tell. */
uint64_t rival_reserved(void);

#endif
