/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One heap per process: which instance of libhomefree is the heap, and what copies know of each
 * other.
 *
 * A process can hold several copies: a wheel ships one under another name, dlmopen() creates a
 * second namespace, two versions meet. The copy that starts first is the heap. Each later copy
 * finds it through the exported record below, in any namespace, and forwards to it: it takes over
 * the heap's region bounds, and as its fast paths never find thread data, every call ends in a slow
 * path, which forwards. A copy whose record has another HF_INSTANCE_ABI cannot forward: it warns
 * with one line, allocates from libc, and still sends the heap's pointers home.
 *
 * instance.c owns the state, which changes only while the copy starts (start/start.c holds the
 * lock); everything here may be read by any thread afterwards, without a lock.
 *
 * Limit: before glibc 2.35, namespaces other than the first are invisible; a copy there becomes a
 * heap of its own.
 */
#ifndef HOMEFREE_ALLOC_HEAP_INSTANCE_H
#define HOMEFREE_ALLOC_HEAP_INSTANCE_H

#include "alloc/heap/internal.h"

/* Increment when a function is removed from struct hf_instance_functions or changes meaning. */
#ifndef HF_INSTANCE_ABI
#    define HF_INSTANCE_ABI 1
#endif

#define HF_INSTANCE_MAGIC "homefree heap\n"

enum hf_instance_state {
    HF_INSTANCE_NEW = 0,    /* not started */
    HF_INSTANCE_HEAP = 1,   /* the heap */
    HF_INSTANCE_FORWARD = 2 /* forwards to the heap, or to libc */
};

/* What the heap's copy does with a foreign pointer of another copy's caller, which is at `caller`:
 * true if it knows whose the pointer is, and so has done what was asked. libc's pointers it leaves
 * to the other copy, whose libc may be another one. Append only. */
struct hf_foreign_functions {
    bool (*free)(void *ptr, const void *caller);
    bool (*free_delete)(void *ptr, enum hf_delete_form form, size_t alignment, const void *caller);
    bool (*realloc)(void *ptr, size_t size, const void *caller, void **moved);
    bool (*usable_size)(const void *ptr, const void *caller, size_t *size);
};

/* Functions that copies of one ABI call in each other. Append only. */
struct hf_instance_functions {
    struct hf_heap_functions heap;
    int (*owner_of)(const void *ptr, struct hf_owner *out);
    int (*stats)(struct hf_stats *out);
    int (*route)(void);
    int (*route_report)(struct hf_route_report *out, hf_route_visitor *visit, void *context);
    int (*adopt)(void *handle);
    int (*python_install)(const struct hf_python_options *options, struct hf_python_state *out);
    int (*python_uninstall)(void);
    int (*release_make)(struct hf_release **out, void *pointer, void (*destroy)(void *pointer),
                        int (*attempt)(void *pointer), const char *name);
    int (*watch_begin)(struct hf_watch **out, size_t capacity);
    /* Ends the process if what is said of a block of the heap is wrong; NULL: nothing is checked.
     */
    void (*check_freed)(const void *ptr, const size_t *alignment, const size_t *size,
                        const void *caller);
    int (*fail_at)(uint64_t call, unsigned flags);
    int (*fail_count)(unsigned flags, struct hf_fail_counts *out);
    int (*fail_end)(unsigned flags, struct hf_fail_counts *out);
    void *(*lookup_for)(void *original);
    const struct hf_space_functions *spaces; /* space/spaces.h */
    int (*release_make_space)(struct hf_release **out, void *pointer, void *stream,
                              const char *name);
    /* loader/satellites/interpreters_tables.h */
    const struct hf_interpreters_functions *interpreters;
    int (*python_share)(const void *array, struct hf_release **out);
    const struct hf_foreign_functions *foreign;
    bool (*publish)(struct hf_region_range *range); /* heap/region.h */
    const struct hf_heaps_functions *(*heaps)(void);
    int (*trim)(hf_trim_visitor *visit, void *context);
    const struct hf_profile_functions *profile; /* loader/satellites/profile_tables.h */
    /* loader/satellites/background_tables.h */
    const struct hf_background_functions *background;
    const struct hf_limits_functions *limits; /* loader/satellites/limits_tables.h */
    int (*stats_of_others)(hf_other_stats_visitor *visit, void *context);
};

/*
 * The record. Fields up to `free` keep their place and meaning in every ABI: through them any two
 * versions send each other's pointers home.
 */
struct hf_instance {
    char magic[16];
    uint32_t abi;
    uint32_t state; /* enum hf_instance_state; written last */
    const char *version;
    uintptr_t region_base;
    uint64_t region_size; /* at most: the heap may not have all of it, and others some */
    void (*free)(void *ptr);
    void *(*realloc)(void *ptr, size_t size);
    size_t (*usable_size)(const void *ptr);
    const struct hf_instance_functions *functions;
};
HF_API extern struct hf_instance hf_instance_record;

/* The functions to call instead of this copy's own; NULL if this copy is the heap. Only after this
 * copy has started. */
const struct hf_instance_functions *hf_instance_forward(void);

/* Whether this copy has started. Any thread. */
bool hf_instance_started(void);

/* The same at any time: starts this copy. */
static inline const struct hf_instance_functions *hf_instance_other(void)
{
    if (HF_UNLIKELY(!hf_instance_started()))
        hf_heap_start();
    return hf_instance_forward();
}

/* Begins an exported function: in a copy that is not the heap, returns what the heap's copy
 * answers; -ENOTSUP if that one is older and has no such function. */
#define HF_INSTANCE_FORWARD(function, ...)                                            \
    do {                                                                              \
        const struct hf_instance_functions *other = hf_instance_other();              \
        if (other != NULL)                                                            \
            return other->function != NULL ? other->function(__VA_ARGS__) : -ENOTSUP; \
    } while (0)

/* The incompatible heap, in a copy that cannot forward to it; otherwise NULL. */
const struct hf_instance *hf_instance_incompatible(void);

/* This copy's own record; the exported name may resolve to another copy's. */
const struct hf_instance *hf_instance_own(void);

/* Before this copy starts: calls fill() with the functions that other copies will call. */
void hf_instance_offer(void (*fill)(struct hf_instance_functions *out));

/*
 * For start/start.c: turns this copy into the heap or a forwarder; hf_instance_publish() then marks
 * it as started. The heap's region must be reserved, and all functions be offered. A forwarder
 * calls the functions of `heap`, or `instead` if `heap` is incompatible.
 */
void hf_instance_become_heap(void);
void hf_instance_become_forwarder(const struct hf_instance *heap,
                                  const struct hf_instance_functions *instead);
void hf_instance_publish(void);

#endif
