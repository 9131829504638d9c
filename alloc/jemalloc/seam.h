/*
 * The one door between jemalloc and the heap. Both sides include it: jemalloc's tail
 * (fast_path.h), which sees jemalloc's internals, and alloc/, which sees nothing else of jemalloc.
 *
 * The seam is an interface: what it declares may be called by every unit, though alloc/ implements
 * some of it above the caller. Nowhere else does a call go up (ARCHITECTURE.md, "Layers").
 *
 * Words: see heap/internal.h.
 */
#ifndef HOMEFREE_JEMALLOC_SEAM_H
#define HOMEFREE_JEMALLOC_SEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- what jemalloc's side needs from alloc/ ---- */

/* The region's bounds, as in homefree.h; this one is hidden, so that reading it needs no GOT. Zero
 * size until the heap has started: nothing is owned then. */
struct hf_region_bounds {
    uintptr_t base;
    size_t size;
};
extern struct hf_region_bounds hf_region __attribute__((visibility("hidden")));

/* What a copy of libhomefree calls when another copy in the process is the heap (instance.h). */
struct hf_heap_functions {
    void *(*malloc)(size_t size);
    void *(*calloc)(size_t count, size_t size);
    void *(*realloc)(void *ptr, size_t size);
    void *(*aligned)(size_t alignment, size_t size);
    void (*free)(void *ptr);
    size_t (*usable_size)(const void *ptr);
};
/* NULL in the copy that is the heap. Written once, while the heap starts. */
extern const struct hf_heap_functions *hf_forward __attribute__((visibility("hidden")));

/* Starts the heap if nobody has; returns when it has started, or when this very thread is doing
 * so. Never fails: a process whose heap cannot start ends (fatal.h). */
void hf_heap_start(void);

/* Frees a pointer outside the region, NULL included. */
void hf_free_foreign(void *ptr);

/* Sends a pointer of the region home where its page is lent (hosted allocator.h); false where it is
 * not. */
bool hf_hosted_free(void *ptr, const void *caller);

/* libc's memory, for who finds the gate of fork_gate.h closed. alignment: 0 for malloc's. */
void *hf_fork_aligned(size_t alignment, size_t size);
void *hf_fork_calloc(size_t count, size_t size);

enum hf_corruption { HF_CORRUPT_IN_FREE, HF_CORRUPT_IN_REALLOC, HF_CORRUPT_IN_MEASURE };
enum hf_corruption_kind {
    HF_CORRUPT_NO_BLOCK,    /* in the region, but no live block: never allocated, or freed */
    HF_CORRUPT_INSIDE,      /* inside a block, not at its first byte */
    HF_CORRUPT_FREED,       /* freed by this thread just before */
    HF_CORRUPT_FREED_CACHED /* freed at least twice, found when a cache was emptied */
};
/* Ends the process. caller: an address in the code that called, or NULL where that is over. */
void hf_heap_corrupted(const void *ptr, const void *caller, enum hf_corruption purpose,
                       enum hf_corruption_kind kind) __attribute__((noreturn, cold));
/* The same for what checks:full finds. asked: bytes that the block was allocated with, SIZE_MAX
 * where that is overwritten too; said: what the call gave. */
void hf_heap_overflowed(const void *ptr, const void *caller, enum hf_corruption purpose,
                        size_t asked) __attribute__((noreturn, cold));
void hf_heap_wrong_size(const void *ptr, const void *caller, size_t asked, size_t said)
    __attribute__((noreturn, cold));
void hf_heap_wrong_alignment(const void *ptr, const void *caller, size_t said)
    __attribute__((noreturn, cold));
/* Ends the process: no memory for something that must not fail. */
void hf_heap_fatal_memory(void) __attribute__((noreturn, cold));

/* Whether anybody watches (watch.h); asked in slow paths alone, into which watching sends all. */
extern bool hf_watching __attribute__((visibility("hidden")));
/* A block was handed out: to be called after that. caller: an address in the code that called; what
 * was recorded of the same block before is forgotten. */
void hf_watch_allocated(const void *ptr, size_t size, const void *caller);
/* A block of the heap is about to be taken back, by free or by realloc. */
void hf_watch_freed(const void *ptr, const void *caller);
/* What became of the realloc that hf_watch_freed() was called for: resized is NULL when it failed,
 * and nothing has happened then. */
void hf_watch_resized(const void *ptr, const void *resized, size_t size, const void *caller);

/* ---- what alloc/ calls on jemalloc's side ---- */

/* Keeps all threads out of the fast paths until it is called as often with false: when it returns,
 * unless another thread's fork waits for the calling one; then when that fork is over. */
void hf_heap_slow(bool slow);

/* Whether the heap runs with checks:full (checks.h), also where it is another copy's. Written once,
 * while the heap starts. The label keeps jemalloc's private namespace from renaming it. */
extern bool hf_checks_full __asm__("hf_checks_full") __attribute__((visibility("hidden")));

/* Starts jemalloc with its configuration string, which must outlive the process's use of it, with
 * or without checks:full. False when it cannot start (no memory). Called once, by hf_heap_start().
 */
bool hf_heap_boot(const char *configuration, bool checks);

void *hf_heap_calloc(size_t count, size_t size);
/* ptr: a heap pointer, not NULL. */
void *hf_heap_realloc(void *ptr, size_t size, const void *caller);
void *hf_heap_aligned(size_t alignment, size_t size);
/* The block's usable size; ends the process when ptr, which is in the region, is no block. */
size_t hf_heap_usable(const void *ptr, const void *caller);
/* With checks:full: the size that a block which is about to be freed was allocated with; ends the
 * process when ptr, which is in the region, is no block or its end was overwritten. */
size_t hf_heap_asked(const void *ptr, const void *caller);
/* The usable size of the live block that holds an address of the region, and its first byte; 0 and
 * NULL where there is none. Takes no lock. */
size_t hf_heap_block(const void *ptr, const void **block);

/* jemalloc's mallctl(3), also for a thread that has no data and can have none. Result: 0 or a
 * negative errno; -EAGAIN where another thread's fork takes long. */
int hf_heap_control(const char *name, void *out, size_t *out_size, void *in, size_t in_size);

/* For fork (start/fork_handlers.c). The first does what was put off while the gate was closed, as
 * far as it is open now; the second is called in a child, with the gate closed. */
void hf_heap_catch_up(void);
void hf_heap_reset_in_child(void);

#endif
