/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The only interface between the heap's front end (alloc/spans) and the rest of alloc/, which sees
 * nothing else of it.
 *
 * Every unit may call the functions declared here, although some of them are implemented above the
 * caller. No call goes up anywhere else (ARCHITECTURE.md, "Layers"). Any thread, at any stage,
 * unless stated otherwise.
 *
 * Terms: see heap/internal.h.
 */
#ifndef HOMEFREE_ALLOC_HEAP_FRONT_END_H
#define HOMEFREE_ALLOC_HEAP_FRONT_END_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- implemented by the rest of alloc/, called by the front end ---- */

/* The region's bounds, as in homefree.h; hidden, so that reading them needs no GOT. The size is
 * zero until the heap has started: nothing is owned then. It grows, to the limit at most. */
struct hf_region_bounds {
    uintptr_t base;
    size_t size, limit;
};
extern struct hf_region_bounds hf_region __attribute__((visibility("hidden")));
#define HF_REGION_MOST ((uintptr_t)32 << 40) /* no limit is higher */

/* The functions that an instance of libhomefree calls if another copy is the heap (instance.h). */
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

/* Starts the heap if necessary. Returns when it has started, or at once if this thread is starting
 * it. Never fails: if the heap cannot start, the process ends (fatal.h). */
void hf_heap_start(void);

/* Does what the constructor of libhomefree does, if it has not run yet and all objects are
 * relocated: for another object's constructor that frees a pointer outside the region. */
void hf_start_early(void);

/* Looks whether libc keeps free what others could have, if the region has grown much since that was
 * done (owner/libc_spare.h). Otherwise two loads. Inside the gate or outside, without a lock. */
void hf_libc_spare_grown(void);

/* Frees a pointer outside the region, NULL included. */
void hf_free_foreign(void *ptr);

/* Sends a pointer of the region home if its page is lent (owner/hosted.h); otherwise returns
 * false. */
bool hf_hosted_free(void *ptr, const void *caller);

/* Memory from libc, for a thread that finds the gate of fork_gate.h closed. alignment: 0 for
 * malloc's. */
void *hf_fork_aligned(size_t alignment, size_t size);
void *hf_fork_calloc(size_t count, size_t size);

enum hf_corruption { HF_CORRUPT_IN_FREE, HF_CORRUPT_IN_REALLOC, HF_CORRUPT_IN_MEASURE };
enum hf_corruption_kind {
    HF_CORRUPT_NO_BLOCK, /* in the region, but not a live block: never allocated, or freed */
    HF_CORRUPT_INSIDE,   /* inside a block, not at its first byte */
    HF_CORRUPT_FREED     /* freed already */
};
/* Ends the process. caller: an address in the calling code; NULL if unknown. */
void hf_heap_corrupted(const void *ptr, const void *caller, enum hf_corruption purpose,
                       enum hf_corruption_kind kind) __attribute__((noreturn, cold));
/* The same in memory of a space. device: -1 for pinned memory. */
void hf_space_corrupted(const void *ptr, const void *caller, enum hf_corruption purpose,
                        enum hf_corruption_kind kind, int device) __attribute__((noreturn, cold));
/* The same for errors that checks:hardened and checks:full detect. asked: the requested size,
 * SIZE_MAX if it is overwritten too; said: the size or alignment that the call states. */
void hf_heap_overflowed(const void *ptr, const void *caller, enum hf_corruption purpose,
                        size_t asked) __attribute__((noreturn, cold));
/* What lies between the block and its neighbour was overwritten, by whichever of them. */
void hf_heap_neighbour(const void *ptr, const void *neighbour, const void *caller)
    __attribute__((noreturn, cold));
/* A block of that size, which nobody has, is not as it was when it was freed. at: the first byte
 * that differs. */
void hf_heap_written_after_free(const void *block, size_t size, const void *at)
    __attribute__((noreturn, cold));
void hf_heap_wrong_size(const void *ptr, const void *caller, size_t asked, size_t said)
    __attribute__((noreturn, cold));
void hf_heap_wrong_alignment(const void *ptr, const void *caller, size_t said)
    __attribute__((noreturn, cold));
/* Ends the process: no memory for an operation that must not fail. */
void hf_heap_fatal_memory(void) __attribute__((noreturn, cold));

/* Whether a watch is open (watch.h) or calls are counted, to make one fail (fail.h). Tested in slow
 * paths only, which both force. */
extern bool hf_watching __attribute__((visibility("hidden")));
/* Counts a call that asks for a block of the heap. True: the call must return NULL with ENOMEM.
 * Only while hf_watching is set. */
bool hf_fail_now(void);
/* Records that a block was handed out; call it afterwards. caller: an address in the calling code.
 * Replaces an earlier record of the block. */
void hf_watch_allocated(const void *ptr, size_t size, const void *caller);
/* Records that free or realloc is about to take back a block of the heap. */
void hf_watch_freed(const void *ptr, const void *caller);
/* Records the result of the realloc that hf_watch_freed() announced; resized is NULL if it failed,
 * which undoes the record. */
void hf_watch_resized(const void *ptr, const void *resized, size_t size, const void *caller);

/* ---- implemented by the front end ---- */

/* Keeps all threads out of the fast paths, until it has been called as often with false. In force
 * on return or, if another thread's fork is waiting for the caller, once that fork is over. */
void hf_heap_slow(bool slow);

/* Values of the option `checks`. */
enum hf_checks {
    HF_CHECKS_DEFAULT,
    HF_CHECKS_HARDENED,
    HF_CHECKS_FULL,
    HF_CHECKS_DIAGNOSED /* the debug heap's own, which needs all that hands out blocks */
};

/* Whether the heap runs with checks:hardened or checks:full: blocks have guards and record their
 * requested size. In a copy that forwards, whether the heap compares what is said of blocks.
 * Written once, while the heap starts. */
extern bool hf_checks_full __attribute__((visibility("hidden")));

/* Starts the heap with these checks. False if there is no memory. Called once, by
 * hf_heap_start(). */
bool hf_heap_boot(enum hf_checks checks);

void *hf_heap_calloc(size_t count, size_t size);
/* ptr: a heap pointer, not NULL. */
void *hf_heap_realloc(void *ptr, size_t size, const void *caller);
/* The same, for small blocks: one that stays, or one of the calling thread's that moves to another.
 * NULL says nothing, and nothing has changed. No lock; leaves errno alone. ptr: any. */
void *hf_heap_realloc_cached(void *ptr, size_t size);
/* A block that the calling thread has at hand; NULL if it has none, or if a slow path is due, as in
 * a copy that forwards, and while hf_watching is set. Leaves errno alone. alignment: a power of
 * two. */
void *hf_heap_aligned_cached(size_t alignment, size_t size);
/* alignment: a power of two. */
void *hf_heap_aligned(size_t alignment, size_t size);
/* The block's usable size; ends the process if ptr, which is in the region, is not a block. */
size_t hf_heap_usable(const void *ptr, const void *caller);
/* With guards: the requested size of a block about to be freed; ends the process if ptr, which
 * is in the region, is not a block or its guard was overwritten. */
size_t hf_heap_asked(const void *ptr, const void *caller);
/* Whether a pointer that is about to be freed may be to a block that was asked for with that size:
 * false for a live block of the heap that could not have been. With hf_checks_full always false.
 * Takes no lock. */
bool hf_heap_is_sized(const void *ptr, size_t size);
/* The usable size and first byte of the live block that holds an address of the region; NULL if
 * there is none. Takes no lock. */
size_t hf_heap_block(const void *ptr, const void **block);

/* The size of the block that starts at an address of the region, 0 if none can start there. One or
 * two lookups: whether the address is a block's first byte, and whether the block is live, is not
 * checked; but as many bytes can be read. The heap must have started and not be forwarded. */
size_t hf_heap_capacity(const void *ptr);
/* The next address above one of the region at which a block may start. */
uintptr_t hf_heap_next(uintptr_t address);

/* hf_malloc has a fast path for blocks of at most so many bytes, and hf_heap_calloc has none: they
 * are cleared by whoever takes them from there. */
#define HF_FAST_MAX ((size_t)32 << 10)
/* malloc(3) of at most HF_FAST_MAX bytes; also tells the block's size, 0 if there is no memory, the
 * block is not this heap's (hf_fork_aligned, hf_forward), or hf_watching is set: whoever takes
 * blocks without a test for that then leaves the fast path. */
struct hf_taken {
    void *ptr;
    size_t size;
};
struct hf_taken hf_heap_take(size_t size);

#if defined(__aarch64__)
enum { HF_LG_PAGE = 16 };
#else
enum { HF_LG_PAGE = 12 };
#endif

/* Frees a small block, live and of this heap: hf_small_at() found it (spans/lookup.h). */
void hf_heap_return(void *ptr);

/* The heap's own numbers, in bytes but for `arenas`; what threads' caches hold does not count. */
struct hf_heap_numbers {
    uint64_t allocated; /* in live blocks */
    uint64_t active;    /* in pages with live blocks */
    uint64_t resident;  /* physical memory, at most */
    uint64_t metadata;  /* of the heap's books */
    unsigned arenas;    /* from which threads allocate, or local heaps, at least one */
};
/* Returns 0, or a negative errno: -ENOMEM if there is no memory to count, -EAGAIN if another
 * thread's fork takes long. */
int hf_heap_count(struct hf_heap_numbers *out);
/* Gives back to the system what is unused, but for what other threads have at hand. Returns 0, or
 * -EAGAIN: another thread's fork takes long. */
int hf_heap_trim(void);

/* What a profile does with samples (spans/samples.h). None takes a lock of the heap, allocates, or
 * waits for anybody who does. */
struct hf_sample_functions {
    /* A block that is about to be handed out; false: it is no sample after all. */
    bool (*record)(const void *ptr, size_t size);
    void (*freed)(const void *ptr);
    /* Ends each sample of which gone() says so. */
    void (*drop)(bool (*gone)(void *context, const void *ptr), void *context);
};
/* From now on, a block of n bytes becomes a sample with the probability 1 - exp(-n / mean); mean 0:
 * none does, and those that live stay samples. One caller at a time, and the same functions for
 * ever. Returns 0, -EAGAIN if another thread's fork takes long, or -EPERM if the system refuses to
 * make a table writable. In the copy that is the heap. */
int hf_heap_sample(const struct hf_sample_functions *functions, size_t mean);
/* What a thread that looks on has found, and done: somebody takes slow paths; nothing worth it is
 * unused; the time has not paid for it yet; it has been given back. */
enum hf_look { HF_LOOK_BUSY, HF_LOOK_NOTHING, HF_LOOK_EARLY, HF_LOOK_GIVEN };
/* Gives back as hf_heap_trim() does if no slow path has begun for so many nanoseconds. */
enum hf_look hf_heap_look(uint64_t quiet);

/* Heaps of one's own and the walk (homefree/heap.h); NULL if there are none. */
struct hf_heap;
struct hf_heaps_functions {
    int (*make)(struct hf_heap **out);
    int (*drop)(struct hf_heap *heap);
    /* alignment: a power of two; 0 for malloc's */
    void *(*take)(struct hf_heap *heap, size_t alignment, size_t size, bool zeroed,
                  const void *caller);
    int (*walk)(const struct hf_heap *heap, int (*visit)(void *context, void *ptr, size_t size),
                void *context);
    /* The heap of one's own that a live block belongs to, or NULL. No lock. */
    struct hf_heap *(*holding)(const void *ptr);
};
const struct hf_heaps_functions *hf_heaps(void);

/* Limits (homefree/limit.h), by number: how many bytes the blocks can hold that count for each. */
enum { HF_LIMITS_COUNT = 64 };
struct hf_limited {
    uint64_t used;    /* atomic; with what threads have at hand: a page for each, at most */
    uint64_t most;    /* atomic: the limit */
    uint64_t peak;    /* atomic: the highest `used` */
    uint64_t refused; /* atomic: allocations */
    bool lenient;     /* nothing is refused */
    bool crossed;     /* atomic: somebody was told; false again once a sixteenth is free */
} __attribute__((aligned(64)));
extern struct hf_limited hf_limited[HF_LIMITS_COUNT] __attribute__((visibility("hidden")));

/* Whether that many bytes are below the limit, or will be had anyway. */
static inline bool hf_limited_fits(const struct hf_limited *limited, uint64_t bytes)
{
    const uint64_t most = __atomic_load_n(&limited->most, __ATOMIC_RELAXED);
    return limited->lenient ||
           (bytes <= most && __atomic_load_n(&limited->used, __ATOMIC_RELAXED) <= most - bytes);
}

/* Begins to count from 0, or ends it: the blocks are ordinary ones from then on. The caller sees to
 * it that nobody uses the number meanwhile. Returns 0, -EAGAIN if another thread's fork takes long,
 * or -EPERM if the system refuses to make a table writable. */
int hf_limited_open(unsigned limit, uint64_t most, bool lenient);
int hf_limited_close(unsigned limit);
/* As hf_malloc(), for blocks that count, if that is as quick; otherwise what slow() returns. limit:
 * HF_LIMITS_COUNT for none. */
void *hf_limited_malloc(unsigned limit, size_t size, void *(*slow)(unsigned limit, size_t size));
/* Makes a live block count, unless it does so for some limit. False: it would be above the limit,
 * and nothing has changed; not with `force`. */
bool hf_limited_claim(unsigned limit, const void *ptr, bool force);
/* NULL with ENOMEM, and the limit has refused one more. */
void *hf_limited_refuse(unsigned limit);
/* Counts bytes that are in no block of the heap; false: that would be above the limit. And counts
 * them no longer. */
bool hf_limited_charge(unsigned limit, uint64_t bytes);
void hf_limited_credit(unsigned limit, uint64_t bytes);
/* The limit that a live block counts for, -1 for none; and as how much it counts, or would. No
 * lock. */
int hf_limited_whose(const void *ptr, uint64_t *bytes);
/* How much more it counts once an object of the limit has resized the block; 0 if the block does
 * not grow, or stays another limit's, or is none of the heap's. */
uint64_t hf_limited_growth(unsigned limit, const void *ptr, size_t size);

/* For fork (start/fork_handlers.c). hf_heap_catch_up() performs the work deferred while the gate
 * was closed, unless it is closed again; hf_heap_reset_in_child() is called in a child with the
 * gate closed. */
void hf_heap_catch_up(void);
void hf_heap_reset_in_child(void);

#endif
