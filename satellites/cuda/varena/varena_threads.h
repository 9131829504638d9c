/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread's blocks of arenas (varena.h): a stack for each class, and what the fast paths
 * (space/fast.c) know of spaces. Only the thread touches its stacks. varena_threads.c owns the
 * records of threads; varena_blocks.c fills and empties their stacks.
 */
#ifndef HOMEFREE_SATELLITES_CUDA_VARENA_VARENA_THREADS_H
#define HOMEFREE_SATELLITES_CUDA_VARENA_VARENA_THREADS_H

#include "alloc/heap/internal.h"

#define HF_VARENA_GRANULE   ((size_t)2 << 20)
#define HF_VARENA_CACHED    ((size_t)32 << 10)
#define HF_VARENA_ALIGNMENT ((size_t)256)
enum {
    HF_VARENA_EXACT = 4096, /* multiples of HF_VARENA_ALIGNMENT to here, then eight a doubling */
    HF_VARENA_CLASSES = 1 + HF_VARENA_EXACT / 256 + 8 * 3 /* 0 is none */
};
_Static_assert(HF_VARENA_CACHED == HF_VARENA_EXACT << 3, "three doublings");
_Static_assert(HF_VARENA_ALIGNMENT == 256, "sizes are in units of it");

enum {
    HF_SPACES_MAX = 17,
    HF_VARENAS_KEPT = 8 /* arenas of which a thread has stacks at a time */
};

/* A free block of a stack, and its state (varena.h). */
struct hf_varena_freed {
    char *block;
    uint8_t *state;
};

struct hf_varena;
struct hf_varena_stacks {
    struct hf_varena_freed
        *tops[HF_VARENA_CLASSES]; /* the newest; below the oldest, block is NULL */
    struct hf_varena_freed *lasts[HF_VARENA_CLASSES];        /* the newest, of a full stack */
    uint8_t classes[HF_VARENA_CACHED / HF_VARENA_ALIGNMENT]; /* by size in that unit, less one */
    struct hf_varena *varena;
};

struct hf_varena_thread {
    /* By the number of a fast space, never NULL; and by the number of an arena. */
    struct hf_varena_stacks *spaces[HF_SPACES_MAX], *varenas[HF_VARENAS_KEPT];
    struct hf_varena_thread *next; /* among those that no thread has */
};

/* The calling thread's record. Never NULL: a thread that has none yet, or no longer, has one whose
 * stacks are empty, and full. */
extern __thread struct hf_varena_thread *hf_varena_here
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The calling thread's own record, which is made if it has none. NULL if there is no memory, or if
 * the thread has given it back, because it ends. Under no lock. */
struct hf_varena_thread *hf_varena_thread(void);
/* Of a fast space of which a thread has no stacks. */
extern struct hf_varena_stacks hf_varena_no_stacks __attribute__((visibility("hidden")));

/* Memory for books: zeroed, at a cache line, between pages that nobody may touch, and never given
 * back. NULL if there is none. Takes a leaf lock. */
void *hf_varena_metadata(size_t size);

/* Once. leave: gives the blocks of a thread's stacks back when it ends. */
void hf_varena_threads_start(void (*leave)(struct hf_varena_thread *thread));

/*
 * What the fast paths of hf_space_alloc() and hf_space_free() know of a space: number 0 is pinned
 * memory, the others are devices. Small blocks of one arena, that of the space's first stream, go
 * through the thread's stacks there. An entry is written once, `arena` last, when the space can be
 * used, and closed when it no longer can; only `frees` and `uses` change meanwhile. Entries from
 * `count` on are empty.
 */
struct hf_fast_space {
    uintptr_t base;
    size_t size;
    void *stream; /* that allocates at once; NULL for pinned memory */
    void *frees;  /* what a block is freed with at once: that stream, for pinned memory
                     HF_STREAM_DONE, and HF_FAST_NONE while `uses` is not 0 */
    const struct hf_varena *varena;
    uint32_t uses;       /* streams that use blocks beside those that the blocks belong to */
    const void *entries; /* of the area, before `size` */
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

#endif
