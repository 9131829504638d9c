/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Local heaps: a thread's own part of the heap. It has a stack of freed blocks for each class, and
 * owns spans. Only its thread touches it, with these exceptions: `queue`, to which other threads
 * add spans in which they freed blocks; what the spans' lock guards (span.h); and the thread's
 * slot, into which hf_local_slow() of another thread stores.
 *
 * locals.c owns their records, threads.c those that threads have. A record is never given back:
 * what is read of it stays a local heap's.
 */
#ifndef HOMEFREE_ALLOC_SPANS_LOCAL_H
#define HOMEFREE_ALLOC_SPANS_LOCAL_H

#include "alloc/spans/classes.h"

struct hf_span;

struct hf_freed {
    char *block;
    uint8_t *state;
};

/* Where a class's blocks come from once its stack is empty. One cache line. */
struct hf_bin {
    uint64_t mask; /* free blocks of the current group, which span.free no longer counts */
    uint8_t *group_state;
    char *group_first;
    struct hf_span *current; /* the group is its */
    struct hf_span *list;    /* others that have enough free blocks */
    uint32_t size, group;    /* group: where to look next */
} __attribute__((aligned(64)));

/* Other threads write to the queue, which therefore has a cache line of its own:
 * NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct hf_local {
    struct hf_freed *tops[HF_CLASSES + 1]; /* the newest; below the oldest, block is NULL. Nothing
                                              is ever in the last one (samples.h) */
    struct hf_freed *limits[HF_CLASSES];   /* one behind the last place */
    struct hf_span *owned;                 /* spans' lock */
    size_t spans;                          /* how many it owns; changes with the lock */
    size_t sparse, sparse_most;         /* how many of them are; at which number it empties them */
    size_t refills;                     /* of its bins */
    struct hf_local *next, *previous;   /* spans' lock: of the list that it is in */
    struct hf_local **slot;             /* the thread's hf_local_here */
    struct hf_local *ended;             /* next one whose thread ended while the gate was closed */
    struct hf_heap *heap;               /* heaps.h */
    int64_t sample_left;                /* bytes until the next sample; 0: not drawn */
    struct hf_bin bins[HF_CLASSES + 1]; /* nor in this one's */
    struct hf_span *queue;              /* atomic: spans with REMOTE blocks (between.h) */
    uint64_t random;                    /* hardened.h, samples.h */
    int thread; /* the thread's id for the kernel; 0: it is not known to end */
    int32_t at_hand[HF_LIMITS_COUNT + 1]; /* of each limit: bytes that count, and no block has
                                             (limited.h); the last one is -1 */
    bool asked; /* atomic: to empty its stacks; others set it with the spans' lock */
};

/* The stacks lie behind the record, in the order of the classes, each at another number of cache
 * lines, so that they do not share cache sets. */
static inline size_t hf_local_stack_bytes(unsigned class)
{
    enum { LINE = 64 };
    return ((size_t)hf_classes[class].stack + 1) * sizeof(struct hf_freed) +
           (size_t)(class % 3) * LINE;
}

/* The calling thread's local heap. Never NULL, so that the fast paths need no test:
 *   &hf_local_none   in a thread that has none yet, or that must take the slow paths for now;
 *   &hf_local_ended  once the thread's is gone.
 * Their stacks are empty, and they own nothing. */
extern __thread struct hf_local *hf_local_here
    __attribute__((tls_model("initial-exec"), visibility("hidden")));
extern struct hf_local hf_local_none __attribute__((visibility("hidden")));
extern struct hf_local hf_local_ended __attribute__((visibility("hidden")));

static inline struct hf_local *hf_local_get(void)
{
    return __atomic_load_n(&hf_local_here, __ATOMIC_RELAXED);
}

/* What a slow path works on: hf_local_use(), then the calls of span.h, then hf_local_done(). Inside
 * the gate. The thread's own local heap, which is made if the thread has none; or else one that
 * threads share, under a lock: in a thread that has ended, or if there is no memory. NULL only if
 * there is no memory for that one either. Does not nest. */
struct hf_local *hf_local_use(void);
void hf_local_done(struct hf_local *local);
/* What hf_local_own() returns while the fast paths are closed, and hf_local_here does not tell. */
extern __thread struct hf_local *hf_local_mine
    __attribute__((tls_model("initial-exec"), visibility("hidden")));
/* The thread's own, if it has one: what it owns needs no lock. */
static inline struct hf_local *hf_local_own(void)
{
    return HF_LIKELY(hf_local_get() != &hf_local_ended) ? hf_local_mine : NULL;
}

/* True: every thread takes the slow paths from its next call on. Inside the gate. */
void hf_local_slow(bool slow);

/* Every thread is asked for what its stacks hold and for unused pages of its spans: it takes the
 * slow path in its next call, and answers once it allocates. Inside the gate. */
void hf_locals_ask(void);

/* A local heap that is no thread's, and whose user must have a lock, inside the gate, for each call
 * with it; NULL if there is no memory. The second one ends all its blocks, live or not, at once, so
 * that a later free of one is one of "never allocated". Inside the gate. */
struct hf_local *hf_local_make(void);
void hf_local_drop(struct hf_local *local);

/* Before anything else of spans: false if there is no memory. */
bool hf_locals_start(void);
/* Whether threads ended while the gate was closed; what they left to do. Inside the gate. */
bool hf_locals_have_ended(void);
void hf_locals_catch_up(void);
/* In a forked child: the local heaps of threads that it lacks lose their spans, as these are
 * needed. Before the gate opens. The caller has made all fork locks anew. */
void hf_locals_reset_in_child(void);
#endif
