/*
 * What a test tells the double of CUDA, and asks it. The double is two libraries with NVIDIA's
 * sonames, libcuda.so.1 and libcudart.so.13, for machines without a device; double.h says what they
 * do. These functions are in libcuda.so.1. A program that does not link it finds them with dlsym().
 *
 * Any thread. Nothing here counts as a call of CUDA's.
 *
 * The environment, read at the first call: DOUBLE_CUDA_DEVICES (2), DOUBLE_CUDA_MEMORY (bytes of
 * each, 1 GiB), DOUBLE_CUDA_VERSION (13000; what the runtime says it is), DOUBLE_CUDA_AT_EXIT (1:
 * what is live at the end is told on stderr, and the process exits with 86).
 */
#ifndef HOMEFREE_TESTS_CUDA_DOUBLE_CONTROL_H
#define HOMEFREE_TESTS_CUDA_DOUBLE_CONTROL_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ---- devices ---- */

/* How many there are, up to 8, and the memory of each. What is taken already stays. */
void double_devices(int count);
void double_memory(int device, size_t bytes);
/* Whether it supports virtual memory management, as it does at first. */
void double_can_map(int device, int can);

/* Whether cuMemAddressReserve() gives addresses that are only as aligned as mappings are. */
void double_ignore_alignment(int ignore);

/* Whether its primary context exists, and how often one was created. */
int double_has_context(int device);
unsigned double_contexts_created(int device);
/* Bytes that are taken. */
size_t double_used(int device);

/* From now on the runtime is unloading: every call fails with 4. */
void double_unload(void);

/* ---- failures ---- */

/*
 * The nth call from now on fails with this error, and does nothing: 1 is the next one. Functions of
 * the driver are named with or without _v2. Those that a function of the runtime's consists of
 * count, and fail, as that one too: "cudaHostRegister" is also cuMemHostRegister().
 */
void double_fail(const char *function, unsigned nth, int error);
/* All calls, until double_forget_failures(). */
void double_fail_always(const char *function, int error);
void double_forget_failures(void);

/* Calls of a function so far, failed ones and those of its other name included. */
unsigned long double_calls(const char *function);

/* ---- the clock ---- */

/*
 * Work that is enqueued in a stream runs only here, or when somebody waits for it. One step runs
 * the first piece of work in each stream whose turn it is: not one that waits for an event, or that
 * stands behind the default stream.
 */
void double_advance(unsigned steps);
/* Steps of one stream alone: of a stream's handle, NULL for device 0's default stream. */
void double_advance_stream(void *stream, unsigned steps);
/* Pieces of work that have not run. */
size_t double_pending(void);

/* Enqueues a call as a kernel would be: it runs with the clock, in whichever thread moves that, and
 * may use double_read() and double_write(), and call CUDA. Result: an error of CUDA's. */
int double_enqueue(void *stream, void (*kernel)(void *argument), void *argument);

/* ---- a device's memory, as its kernels see it ---- */

/* 0, or 700 if some of it is not there; then the device's context is lost, as with real ones. */
int double_read(const void *from, void *to, size_t size);
int double_write(void *to, const void *from, size_t size);

/* Work that touched memory which was not there, or was no longer locked. Each is told on stderr. */
unsigned double_faults(void);

/* ---- what is live ---- */

struct double_live {
    size_t blocks;     /* cudaMalloc(), cudaMallocAsync(), cudaMallocManaged() */
    size_t reserved;   /* ranges of cuMemAddressReserve() */
    size_t mapped;     /* mappings in them */
    size_t handles;    /* of cuMemCreate(), not released */
    size_t host;       /* blocks of cudaHostAlloc() */
    size_t registered; /* cudaHostRegister() */
    size_t streams, events, graphs;
};
/* Result: the sum. out may be NULL. */
size_t double_leaks(struct double_live *out);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
