/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/space.h - memory of a kind of its own: page-locked host memory, and devices' memory.
 *
 * Each space has an address range of its own, so that which space, device and block an address
 * belongs to is known without the CUDA driver. hf_free() and, once they are routed, free(),
 * cudaFree(), cudaFreeHost() and cudaFreeAsync() send a pointer of a space home. Memory that others
 * got from CUDA goes home to the library that it came from in the same way.
 *
 * libhomefree does not link the CUDA runtime. The first allocation looks for it: one that is loaded
 * already, then libcudart.so.13, .12 and .11, or the file that the option `cuda` names. Without it,
 * or without a device, the calls return -ENODEV, hf_space_reason() says why, and everything else
 * works. Freeing, asking and counting never load the runtime and never create a context.
 *
 * Streams are cudaStream_t or CUstream. Memory that is freed while a device may still use it is
 * kept until the device is done: the stream that is passed says whose work that is.
 *
 *   NULL            the default stream
 *   HF_STREAM_DONE  nothing uses the memory any more, on any stream
 *   HF_STREAM_ANY   it is not known which streams use it: it is kept until all devices have once
 *                   been idle, which homefree waits for before the space grows
 *
 * After fork(2) the child cannot use CUDA. There, allocating returns -ENODEV, and freed blocks are
 * counted as leaked. Once the runtime is unloading, at the end of the process or after
 * cudaDeviceReset(), nothing is called any more, and the same holds.
 */
#ifndef HOMEFREE_SPACE_H
#define HOMEFREE_SPACE_H

#include <homefree/base.h>

#ifdef __cplusplus
/* A function may share its struct's name, as stat(2) does. */
#    pragma GCC diagnostic push
#    pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#endif

/* The kinds of memory. */
enum hf_space_kind {
    HF_SPACE_HOST = 0,   /* the heap */
    HF_SPACE_PINNED = 1, /* page-locked host memory, which all devices can access */
    HF_SPACE_DEVICE = 2  /* a device's memory; the host must not touch it */
};

/* Streams that are none; see above. */
#define HF_STREAM_DONE ((void *)(intptr_t)-1)
#define HF_STREAM_ANY  ((void *)(intptr_t)-2)

/* What is known of an address. Caller-sized. */
struct hf_space {
    size_t size;
    enum hf_space_kind kind;
    int device;        /* the device's index; -1 for memory of the host */
    void *stream;      /* for a device: the stream that the block was allocated for */
    const void *block; /* first byte of the live block that contains the address; NULL if none */
    size_t block_size; /* usable bytes of the block; 0 if there is none */
};

/*
 * Allocates memory of a space.
 *
 * A device's block may be used at once by work on `stream`, and only by that: another stream must
 * wait for an event first, as for cudaMallocAsync(). Blocks of pinned memory may be used at once
 * everywhere. The contents are undefined.
 *
 * Parameters:
 *   out        out: the first byte; unchanged on error
 *   kind       in: the space
 *   device     in: the device's index for HF_SPACE_DEVICE; otherwise ignored
 *   size       in: bytes; 0 gives a distinct pointer
 *   alignment  in: bytes, a power of two of at most 2 MiB; 0 means 256, or malloc's for
 *              HF_SPACE_HOST
 *   stream     in: for HF_SPACE_DEVICE the stream that uses the block first; otherwise ignored
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  out is NULL, or kind, device or alignment is not possible; HF_STREAM_DONE or
 *            HF_STREAM_ANY was passed
 *   -ENODEV  there is no usable runtime or device, or this installation has no
 *            libhomefree-cuda.so; hf_space_reason() says why
 *   -ENOMEM  the device, the host or the limit has no room
 *   -EBUSY   the stream is being captured into a graph, and there is no room unless the device is
 *            waited for, which would invalidate the capture
 *   -EIO     CUDA failed otherwise; hf_space_reason() has the name of its error
 *   -EAGAIN  more streams than homefree can tell apart, 256 of a device, have live blocks; or the
 *            device cannot be waited for now, to give the place of one without blocks away
 * Frees: the caller, with hf_space_free(), hf_free() or what is routed.
 * Threads: safe.
 * Fork: safe; -ENODEV in the child, except for HF_SPACE_HOST.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_space_alloc(void **out, enum hf_space_kind kind, int device, size_t size,
                          size_t alignment, void *stream);

/*
 * Frees a block of any space. A pointer that is in none goes where hf_free() sends it.
 *
 * Parameters:
 *   ptr     in: the block's first byte; NULL does nothing
 *   stream  in: the stream that used the block last, HF_STREAM_DONE or HF_STREAM_ANY
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL     ptr lies in a space, but is not the first byte of a live block
 *   -ECANCELED  the device can no longer tell whether it is done: the block is leaked and counted
 * Frees: the block.
 * Threads: safe.
 * Fork: safe; in the child, blocks of a space are leaked and counted.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_space_free(void *ptr, void *stream);

/*
 * Records that work on another stream uses a block too: once it is freed, the block is kept until
 * the work that is in that stream by then is done.
 *
 * Parameters:
 *   ptr     in: the first byte of a live block of HF_SPACE_PINNED or HF_SPACE_DEVICE
 *   stream  in: the other stream
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  ptr is not such a block
 *   -ENOMEM  there is no memory
 * Frees: nothing.
 * Threads: safe; the caller keeps the block from being freed meanwhile.
 * Fork: safe; does nothing in the child.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_space_use(void *ptr, void *stream);

/*
 * Makes the work that comes into a stream from now on wait for what is in another stream now. The
 * calling thread does not wait.
 *
 * Parameters:
 *   device  in: the device of the streams; it says whose default stream is meant
 *   before  in: the stream whose work comes first. HF_STREAM_DONE orders nothing, and so only asks
 *           whether there is such a device; for HF_STREAM_ANY the calling thread waits until the
 *           device has done everything
 *   after   in: the stream that waits
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  a stream or the device is not possible
 *   -ENODEV  as for hf_space_alloc(); no context is created to find that out
 *   -ENOMEM  the device or the host has no room
 *   -EBUSY   a stream is being captured into a graph
 *   -EIO     as for hf_space_alloc()
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe; -ENODEV in the child.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_space_order(int device, void *before, void *after);

/*
 * Tells which space an address belongs to. Takes no lock and asks no driver. A block of up to 32
 * KiB counts as live until it has left the cache of the thread that freed it.
 *
 * Parameters:
 *   ptr  in: any value; it is not accessed
 *   out  out: the answer
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  out is NULL, or its size is too small
 *   -ENOENT  the address belongs to no space of homefree's; hf_owner_of() may know whose it is
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_space_of(const void *ptr, struct hf_space *out);

/* The counters of a space. Caller-sized. All are bytes, unless stated otherwise. */
struct hf_space_stats {
    size_t size;
    uint64_t total;          /* what the device has, or the host's memory */
    uint64_t limit;          /* at most this much is reserved */
    uint64_t reserved;       /* page-locked, or taken from the device, now */
    uint64_t reserved_peak;  /* the most that was reserved at a time */
    uint64_t allocated;      /* in live blocks and in threads' caches */
    uint64_t allocated_peak; /* the most that was allocated at a time, as far as it was looked at */
    uint64_t pending;        /* freed, but the device may still use it */
    uint64_t leaked;         /* could not be freed safely */
    uint64_t leaked_blocks;  /* blocks */
    uint32_t streams;        /* streams that have memory */
    uint32_t grown;          /* times that memory was asked from the driver */
};

/*
 * Reads the counters of a space or, with a stream, of what was allocated for that stream alone:
 * then only allocated, pending and leaked are filled in.
 *
 * Parameters:
 *   kind    in: HF_SPACE_PINNED or HF_SPACE_DEVICE
 *   device  in: the device's index; ignored for HF_SPACE_PINNED
 *   stream  in: a stream; HF_STREAM_ANY for all
 *   out     out: the counters
 * Result: 0 or a negative errno. A space that was never used has only zeros.
 * Errors:
 *   -EINVAL  kind or device is not possible, out is NULL, or its size is too small
 *   -ENOENT  nothing was allocated for the stream, or nothing is live and another stream has its
 *            memory
 * Frees: nothing.
 * Threads: safe; takes the space's locks.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_space_stats(enum hf_space_kind kind, int device, void *stream,
                          struct hf_space_stats *out);

/*
 * Limits how much a space may reserve. What is reserved already stays.
 *
 * Parameters:
 *   kind    in: HF_SPACE_PINNED or HF_SPACE_DEVICE
 *   device  in: the device's index; ignored for HF_SPACE_PINNED
 *   bytes   in: the limit; 0 for the default: a device's whole memory, half of the host's
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  kind or device is not possible
 *   -ENODEV  as for hf_space_alloc()
 *   -ENOMEM  the space was never used, and there is no room for its tables or addresses
 *   -EBUSY   the space was never used, and CUDA refused a call because of a capture
 *   -EIO     the space was never used, and CUDA failed otherwise
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_space_limit(enum hf_space_kind kind, int device, uint64_t bytes);

/*
 * Gives unused memory back to the driver, until `keep` bytes are reserved or nothing more can be
 * given back. Pages beside live blocks, and blocks in other threads' caches, stay. Waits for the
 * device.
 *
 * Parameters:
 *   kind      in: HF_SPACE_PINNED or HF_SPACE_DEVICE
 *   device    in: the device's index; ignored for HF_SPACE_PINNED
 *   keep      in: bytes
 *   released  out: bytes that were given back; may be NULL
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  kind or device is not possible
 *   -ENODEV  as for hf_space_alloc()
 *   -ENOMEM  the space was never used, and there is no room for its tables or addresses
 *   -EBUSY   the space was never used, and CUDA refused a call because of a capture
 *   -EIO     the space was never used, and CUDA failed otherwise
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_space_trim(enum hf_space_kind kind, int device, uint64_t keep, uint64_t *released);

/*
 * Says why a space cannot be used.
 *
 * Parameters:
 *   kind    in: the space
 *   device  in: the device's index; ignored unless kind is HF_SPACE_DEVICE
 *   text    out: one line, ended by a zero byte and cut off if it is longer; "" if nothing is known
 *           to be wrong
 *   size    in: bytes of text
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  kind or device is not possible, or text is NULL
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_space_reason(enum hf_space_kind kind, int device, char *text, size_t size);

#ifdef __cplusplus
}
#    pragma GCC diagnostic pop
#endif
#endif
