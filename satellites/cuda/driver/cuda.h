/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The seam to CUDA: the only header through which homefree reaches the runtime and the driver. The
 * files beside it implement it. Nothing outside this directory knows a name, a type or an error
 * number of CUDA's.
 *
 * Nothing is linked. hf_cuda_find() looks for a libcudart: one that is loaded already, then by
 * soname, or the file that the option `cuda` names. The driver's functions come from the libcuda
 * that this runtime has loaded.
 *
 * All functions return 0 or a negative errno, unless stated otherwise. They preserve errno, and the
 * runtime's "last error": a caller's cudaGetLastError() does not see our failures, except that
 * hf_cuda_find() replaces an error that was there before when it finds no device.
 *
 *   -ENODEV     no runtime, no driver, no device; or its version is not known
 *   -ENOMEM     the device or the host has no room
 *   -EINVAL     CUDA refused an argument: no such device, stream or range
 *   -EAGAIN     not ready yet
 *   -EBUSY      not allowed while a stream is being captured into a graph
 *   -ESHUTDOWN  the runtime is unloading, the process is a forked child, or a device's primary
 *               context was destroyed: nothing may be called any more, and nothing is
 *   -ENOTSUP    the driver or the device cannot do this
 *   -EIO        any other error
 *
 * Any thread. No function may be called from a signal handler. The calling thread's current device
 * and context are unchanged on return, and it may be capturing a stream. cuda_calls.c owns the
 * functions' addresses, which are sealed once they are found, and events.c a pool of events; no
 * lock is held during a call of CUDA's.
 */
#ifndef HOMEFREE_SATELLITES_CUDA_DRIVER_CUDA_H
#define HOMEFREE_SATELLITES_CUDA_DRIVER_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a caller of homefree/space.h is told of an error, whose arguments were right and who cannot
 * try again: -EBUSY, -ENODEV, -ENOMEM or -EIO. */
int hf_cuda_public(int error);

/* Finds the runtime and a device; the first success is kept. A failure is not: a runtime may be
 * loaded later. May load a library. Never creates a context. */
int hf_cuda_find(void);

/* Whether hf_cuda_find() has succeeded. Lock-free; loads nothing. */
bool hf_cuda_found(void);

/* Why the last hf_cuda_find() failed, or the name and number of CUDA's last error in a call of
 * ours; "" if there is none. Cut off to `size` bytes. */
void hf_cuda_reason(char *text, size_t size);

/* The number of devices, or a negative errno. */
int hf_cuda_devices(void);

/* The device that the calling thread uses now; 0 if that is not known. Creates no context. */
int hf_cuda_current(void);

/* Whether the device's primary context exists. Asks the driver; creates none. */
bool hf_cuda_has_context(int device);

/* The device's memory in bytes. May create the device's primary context. */
int hf_cuda_memory(int device, uint64_t *free, uint64_t *total);

/* ---- page-locked memory ---- */

/* Locks whole pages of the host, for all devices. May create the context of the current device. */
int hf_cuda_lock(void *at, size_t size);
/* Unlocks what one hf_cuda_lock() locked. */
int hf_cuda_unlock(void *at);

/* ---- a device's memory ---- */

/* Whether the device can map memory into a reserved range: 1 or 0, or a negative errno. */
int hf_cuda_can_map(int device);

/* The size in bytes of which hf_cuda_map()'s sizes and addresses are multiples: a power of two. */
int hf_cuda_granularity(int device, size_t *granularity);

/* Reserves addresses of the device, without memory, at a multiple of `alignment`. Creates the
 * device's primary context. -ENOTSUP if the driver does not keep such an alignment. */
int hf_cuda_reserve(int device, size_t size, size_t alignment, uintptr_t *at);
int hf_cuda_unreserve(int device, uintptr_t at, size_t size);

/* Gives memory to a part of a reserved range, readable and writable by the device, and takes it
 * back. What is taken back was given by one call. The device must be done with it. */
int hf_cuda_map(int device, uintptr_t at, size_t size);
int hf_cuda_unmap(int device, uintptr_t at, size_t size);

/* cudaMalloc() and cudaFree(), for a device that cannot map. */
int hf_cuda_block(int device, size_t size, uintptr_t *at);
int hf_cuda_unblock(int device, uintptr_t at);

/* ---- streams ---- */

struct hf_cuda_event;

/* Whether a stream is one of another context than the device's primary one; true if that cannot be
 * told. Never for the streams 0 to 2. Creates the primary context. */
bool hf_cuda_is_elsewhere(int device, void *stream);

/* Whether a stream is being captured into a graph. False if that cannot be told. */
bool hf_cuda_is_capturing(int device, void *stream);

/* Marks the end of the work that is in `stream` now. device: where the stream belongs, as far as
 * it is known; for streams 0 (the default), 1 and 2 (cudaStreamLegacy, cudaStreamPerThread) it
 * says whose. Creates that device's primary context. -EBUSY if the stream is being captured. */
int hf_cuda_mark(int device, void *stream, struct hf_cuda_event **out);

/* Whether the work is done: 0; -EAGAIN while it is not; -EINVAL if it was in a context of the
 * user's that has ended. */
int hf_cuda_is_done(struct hf_cuda_event *event);

/* Waits until the work is done. */
int hf_cuda_await(struct hf_cuda_event *event);

/* Makes the work that comes into the stream `after` from now on wait for what is in `before` now;
 * does not wait itself. device: as for hf_cuda_mark(), of both. Equal streams need nothing. -EBUSY
 * if one of them is being captured: an event from outside would invalidate the capture. */
int hf_cuda_order(int device, void *before, void *after);

/* Returns an event to the pool. NULL does nothing. */
void hf_cuda_drop(struct hf_cuda_event *event);

/* Waits until a device has done everything in its primary context. device: -1 for all that have
 * one. -EBUSY if a stream is being captured that synchronises with the default stream; a capture of
 * another stream of the device cannot be seen, and would be invalidated. */
int hf_cuda_wait(int device);

/* ---- addresses of others ---- */

enum hf_cuda_memory_type {
    HF_CUDA_NONE,    /* CUDA knows nothing of the address */
    HF_CUDA_PINNED,  /* page-locked by cudaHostAlloc() or cudaHostRegister() */
    HF_CUDA_DEVICE,  /* a device's */
    HF_CUDA_MANAGED, /* cudaMallocManaged()'s */
};
struct hf_cuda_address {
    enum hf_cuda_memory_type type;
    int device;      /* -1 if not known */
    uintptr_t start; /* of the allocation that holds the address; 0 if not known */
    size_t size;     /* bytes; 0 if not known */
    uint64_t pool;   /* 1 if the memory is of a stream-ordered pool */
};

/* What the driver knows of an address. Does not look for a runtime, creates no context;
 * HF_CUDA_NONE if there is none. */
int hf_cuda_address(const void *ptr, struct hf_cuda_address *out);

/*
 * Memory that others have from CUDA, by a runtime or the driver, which need not be what
 * hf_cuda_find() finds. It is freed as they would free it.
 */

/* Takes the driver that the process has loaded, for the functions below; loads nothing, but takes
 * the dynamic linker's lock. -ENODEV if there is none. */
int hf_cuda_take_driver(void);

/* Where the calling thread's next call of CUDA's would take place. *context NULL and -1: unknown,
 * or there is no context yet. Creates none. */
int hf_cuda_here(void **context);

/* The device that others' memory is on; -1 if that is not known. */
int hf_cuda_device_of(const void *ptr);

/*
 * Frees others' memory by `release`, a function of CUDA's that takes its address, in the context
 * that it belongs to; `context` is what hf_cuda_here() said when it was allocated. Creates no
 * context. idle: waits until that context has done everything before.
 *
 *   -ENOENT     CUDA does not know the memory (any more)
 *   -ESHUTDOWN  nothing can be called any more
 *   -ENODEV     there is no driver
 *   -EIO        CUDA refused for another reason
 */
int hf_cuda_release(void *release, void *ptr, void *context, bool idle);

/* ---- what routed calls return to CUDA's callers ---- */

enum { HF_CUDA_SUCCESS = 0, HF_CUDA_INVALID_VALUE = 1, HF_CUDA_NOT_REGISTERED = 713 };

/* ---- the process ---- */

/* After this, every function that would call CUDA returns -ESHUTDOWN. Called in a forked child
 * alone. */
void hf_cuda_forbid(void);

#endif
