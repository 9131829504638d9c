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
#ifndef HOMEFREE_FRONT_END_H
#define HOMEFREE_FRONT_END_H

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

/* The functions that a copy of libhomefree calls if another copy is the heap (instance.h). */
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
/* The same for errors that checks:hardened and checks:full detect. asked: the requested size,
 * SIZE_MAX if it is overwritten too; said: the size or alignment that the call states. */
void hf_heap_overflowed(const void *ptr, const void *caller, enum hf_corruption purpose,
                        size_t asked) __attribute__((noreturn, cold));
/* What lies between the block and its neighbour was overwritten, by whichever of them. */
void hf_heap_neighbour(const void *ptr, const void *neighbour, const void *caller,
                       enum hf_corruption purpose) __attribute__((noreturn, cold));
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
    HF_CHECKS_DIAGNOSED /* the diagnosed heap's own, which needs all that hands out blocks */
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
size_t hf_heap_room(const void *ptr);
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

/*
 * Grounds: address ranges, never accessed, in which blocks are managed as they are in the heap
 * (spans/ground.h). `grow` gives a ground more addresses: `size` bytes, a multiple of
 * HF_GROUND_GRANULE and aligned to it, readable by nobody, inside the region; NULL if there are
 * none. It is called under the ground's lock and must not allocate.
 *
 * Blocks of at most HF_GROUND_CACHED bytes are taken and given back without a lock. The others,
 * whose sizes are whole pages, take the ground's. All functions may be called by any thread while
 * the heap is not forwarded; in a thread that waits for another one's fork for too long they fail.
 */
struct hf_ground;
#define HF_GROUND_GRANULE   ((size_t)2 << 20)
#define HF_GROUND_CACHED    ((size_t)32 << 10)
#define HF_GROUND_ALIGNMENT ((size_t)256)
/* NULL if there is no memory, or there are too many. A ground is never closed. `delta` is what
 * turns an address of the ground into one that programs know. `lacks` tells how much of some
 * addresses has no memory yet, or any number above `most`; it is called under that lock, too. */
struct hf_ground *hf_ground_open(void *(*grow)(void *space, size_t size),
                                 size_t (*lacks)(void *space, const void *at, size_t size,
                                                 size_t most),
                                 void *space, uintptr_t delta);
/* A small block at a multiple of HF_GROUND_ALIGNMENT, of which the size is a multiple too; NULL if
 * grow gave nothing. */
void *hf_ground_take(struct hf_ground *ground, size_t size);
/* Calls visit for each block of that size that the thread has at hand, until it returns false. */
bool hf_ground_each_cached(const struct hf_ground *ground, size_t size,
                           bool (*visit)(void *context, void *at, size_t size), void *context);
/* Gives a small block back that was claimed, or that nobody has seen. */
void hf_ground_give(struct hf_ground *ground, void *at);
/* A large block, of more than HF_GROUND_CACHED bytes in whole pages, at a multiple of a power of
 * two, from the addresses that the ground has: reuses the last freed one of that size, or else
 * takes the free range that fits and lacks the least, the smallest one of several. */
void *hf_ground_take_pages(struct hf_ground *ground, size_t size, size_t alignment);
/* The same for a large block; with `keep`, for a request of its own size first. */
void hf_ground_give_pages(struct hf_ground *ground, void *at, bool keep);
/* Whoever frees a live block claims it, and then has it alone: it is no longer live, and is to be
 * given back, now or later. False if no live block starts there. Takes no lock. */
bool hf_ground_claim(void *at);
/* Gets `size` more bytes from grow. They never merge with what lies below. */
bool hf_ground_add(struct hf_ground *ground, size_t size);
/* Empties this thread's stacks and merges all free ranges. */
void hf_ground_empty(struct hf_ground *ground);
/* Calls visit for each free range. visit runs under the ground's lock. */
void hf_ground_each_free(struct hf_ground *ground,
                         void (*visit)(void *context, void *at, size_t size), void *context);
/* The live block that holds an address of a ground; `at` is NULL if there is none. Takes no lock.
 */
struct hf_ground_block {
    void *at;
    size_t size;
    bool small;
    bool was_freed; /* a block that starts at the address is free, or claimed */
    unsigned arena; /* hf_ground_arena() of its ground */
};
struct hf_ground_block hf_ground_find(const void *at);
unsigned hf_ground_arena(const struct hf_ground *ground);
/* What the heap finds the ground's blocks with. */
void *hf_ground_entries(const struct hf_ground *ground);
/* Bytes in small blocks, live or cached. */
uint64_t hf_ground_small(struct hf_ground *ground);

/*
 * What the fast paths of hf_space_alloc() and hf_space_free() know of a space: number 0 is pinned
 * memory, the others are devices. Small blocks of one ground, that of the space's first stream, go
 * through the thread's cache there; everything else is for the two functions below, which alloc/
 * implements. An entry is written once, `ground` last, when the space can be used, and closed when
 * it no longer can; only `frees` and `uses` change meanwhile. Entries from `count` on are empty.
 */
enum { HF_SPACES_MAX = 17 };
struct hf_fast_space {
    uintptr_t base;
    size_t size;
    uintptr_t delta; /* what turns an address of the ground into one of the space */
    void *stream;    /* that allocates at once; NULL for pinned memory */
    void *frees;     /* what a block is freed with at once: that stream, for pinned memory
                        HF_STREAM_DONE, and HF_FAST_NONE while `uses` is not 0 */
    const struct hf_ground *ground;
    uint32_t uses;  /* streams that use blocks beside those that the blocks belong to */
    unsigned arena; /* hf_ground_arena() */
    void *entries;  /* hf_ground_entries(); before `size` */
} __attribute__((aligned(64)));
struct hf_fast_spaces {
    struct hf_fast_space at[HF_SPACES_MAX];
    size_t count;
};
extern struct hf_fast_spaces hf_fast_spaces __attribute__((visibility("hidden")));
#define HF_FAST_NONE ((void *)&hf_fast_spaces) /* no stream's handle */
static inline void hf_fast_close(struct hf_fast_space *space)
{
    __atomic_store_n(&space->stream, HF_FAST_NONE, __ATOMIC_RELAXED);
    __atomic_store_n(&space->size, 0, __ATOMIC_RELAXED);
}
int hf_space_alloc_slow(void **out, int kind, int device, size_t size, size_t alignment,
                        void *stream);
int hf_space_free_slow(void *ptr, void *stream);

/* The heap's own numbers, in bytes but for `arenas`; blocks of spaces and what threads' caches hold
 * do not count. */
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
};
const struct hf_heaps_functions *hf_heaps(void);

/* For fork (start/fork_handlers.c). hf_heap_catch_up() performs the work deferred while the gate
 * was closed, unless it is closed again; hf_heap_reset_in_child() is called in a child with the
 * gate closed. */
void hf_heap_catch_up(void);
void hf_heap_reset_in_child(void);

#endif
