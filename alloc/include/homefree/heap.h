/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/heap.h - heaps of one's own, and a look at all live blocks.
 *
 *     struct hf_heap *heap;
 *     if (hf_heap_new(&heap) == 0) {
 *         struct node *node = hf_heap_malloc(heap, sizeof *node);
 *         …                      // as much as a request, a test or an interpreter needs
 *         (void)hf_heap_drop(heap);  // all of it, at once
 *     }
 *
 * A heap of one's own has memory of its own, in the same region: its blocks are blocks of homefree
 * in every respect. hf_free(), a routed free() and realloc() take them, from any thread and any
 * module, hf_usable_size() measures them, and a block that realloc() moves stays in its heap.
 * Freeing one twice, or after its heap was dropped, ends the process as for any other block.
 *
 * In a process that runs under diagnostics mode (homefree/diagnose.h) the functions fail with
 * ENOTSUP.
 */
#ifndef HOMEFREE_HEAP_H
#define HOMEFREE_HEAP_H

#include <homefree/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hf_heap;

/*
 * Makes a heap of one's own.
 *
 * Parameters:
 *   out  out: the heap; unchanged on error
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL   out is NULL
 *   -ENOMEM   there is no memory
 *   -ENOTSUP  diagnostics mode, or a copy that forwards to an older heap, which has none
 * Frees: the caller drops the heap with hf_heap_drop().
 * Threads: safe.
 * Fork: safe; the child has a copy of the heap and its blocks.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_heap_new(struct hf_heap **out);

/*
 * Ends a heap of one's own: frees all its blocks, without a call for each.
 *
 * Destructors and deleters (homefree/deleter.h) do not run. No thread may use the heap or its
 * blocks any more, or be about to free one.
 *
 * Parameters:
 *   heap  in: the heap; NULL does nothing
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  the heap was dropped already; found as long as no other heap has taken its place
 *   -EAGAIN  another thread's fork takes long; nothing has changed
 * Frees: the heap and its blocks.
 * Threads: safe for different heaps.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_heap_drop(struct hf_heap *heap);

/*
 * Allocates memory from a heap of one's own, as malloc(3) and memalign(3) do; hf_heap_zalloc()
 * clears the block.
 *
 * Parameters:
 *   heap       in: the heap
 *   alignment  in: a power of two
 *   size       in, bytes; 0 yields a unique pointer that can be freed
 * Result: the block, aligned as hf_malloc() aligns it, or to `alignment`; NULL on error, with errno
 *   set.
 * Errors:
 *   ENOMEM  the region is full, the system refuses memory, or another thread's fork takes long
 *   EINVAL  alignment is not a power of two
 * Frees: the caller frees the block with hf_free() or any routed free(), or with its heap.
 * Threads: safe; threads that use one heap wait for each other.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API HF_MALLOC void *hf_heap_malloc(struct hf_heap *heap, size_t size);
HF_API HF_MALLOC void *hf_heap_zalloc(struct hf_heap *heap, size_t size);
HF_API HF_MALLOC void *hf_heap_memalign(struct hf_heap *heap, size_t alignment, size_t size);

/* What hf_heap_walk() calls for each block. A result other than 0 ends the walk. */
typedef int hf_heap_visitor(void *context, void *ptr, size_t size);

/*
 * Visits every live block of the heap, or of a heap of one's own.
 *
 * The heap's blocks are those of all threads, of heaps of one's own, and of libhomefree itself, in
 * the order of their addresses, small ones first; blocks of spaces (homefree/space.h) and what the
 * heap lends to hosted allocators are not among them. Each block is live when it is found. If no
 * other thread allocates or frees meanwhile, because there is none or all are stopped, the walk
 * finds exactly the live blocks; otherwise what these threads do may be seen or not.
 *
 * The visitor may allocate and free, which may be seen or not. It must not drop a heap.
 * `homefree memory --blocks --pid PID` shows the same of another process.
 *
 * Parameters:
 *   heap     in: whose blocks; NULL: all of them
 *   visit    in: called with each block's first byte and usable size
 *   context  in: passed on to it
 * Result: 0 when every block was visited; what the visitor returned if it ended the walk; or a
 *   negative errno.
 * Errors:
 *   -EINVAL   visit is NULL
 *   -ENOTSUP  diagnostics mode, or a copy that forwards to an older heap, which has none
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_heap_walk(const struct hf_heap *heap, hf_heap_visitor *visit, void *context);

#ifdef __cplusplus
}
#endif
#endif
