/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Between libhomefree and its satellite libhomefree-cuda: what each calls of the other, and nothing
 * else. The satellite has spaces (homefree/space.h), the seam to CUDA, and the record of what CUDA
 * gave to others; space_calls.h opens it. Both tables are constant.
 */
#ifndef HOMEFREE_ALLOC_SPACE_CUDA_SATELLITE_H
#define HOMEFREE_ALLOC_SPACE_CUDA_SATELLITE_H

#include "alloc/base/fatal.h"
#include "alloc/base/options.h"
#include "alloc/heap/front_end.h"
#include "alloc/owner/foreign.h"

#include <homefree/space.h>

enum { HF_DEVICES_MAX = 16 }; /* their numbers begin at 0 */

/* The functions of homefree/space.h in the copy that is the heap, which it also offers to other
 * copies. Append only (heap/instance.h). */
struct hf_space_functions {
    int (*alloc)(void **out, enum hf_space_kind kind, int device, size_t size, size_t alignment,
                 void *stream);
    int (*free)(void *ptr, void *stream);
    int (*use)(void *ptr, void *stream);
    int (*of)(const void *ptr, struct hf_space *out);
    int (*stats)(enum hf_space_kind kind, int device, void *stream, struct hf_space_stats *out);
    int (*limit)(enum hf_space_kind kind, int device, uint64_t bytes);
    int (*trim)(enum hf_space_kind kind, int device, uint64_t keep, uint64_t *released);
    int (*reason)(enum hf_space_kind kind, int device, char *text, size_t size);
    int (*order)(int device, void *before, void *after);
};

/* What CUDA gives to others; shim/functions.def names these. */
enum hf_others_memory {
    HF_OTHERS_DEVICE,
    HF_OTHERS_MANAGED,
    HF_OTHERS_POOLED, /* in the order of a stream */
    HF_OTHERS_PINNED,
    HF_OTHERS_REGISTERED,
    HF_OTHERS_MAPPED /* by the driver, to addresses that were reserved */
};

/* A call of CUDA's that has handed memory out, or registered it. */
struct hf_cuda_given {
    const void *at;
    size_t size;
    enum hf_others_memory memory;
    const void *function; /* that was called */
    const void *map;      /* the link_map of its library */
    const char *release;  /* the name of the function there that gives it back; a constant */
    const void *caller;   /* an address in the code that made the call */
};

/* A call of CUDA's that is to give memory back. */
struct hf_cuda_returned {
    int (*function)(void *ptr, void *second);
    void *ptr, *second;
    void *stream; /* on which it is given back, HF_STREAM_ANY, or one of the next two */
    enum hf_others_memory meant;
    const void *caller;
};
#define HF_SPACE_UNREGISTERS ((void *)(intptr_t)-3) /* the call ends a registration */
#define HF_SPACE_UNMAPS      ((void *)(intptr_t)-4) /* or a mapping */

/* Of the satellite. */
struct hf_cuda_satellite {
    /* Without watches, and without HF_SPACE_HOST. What is in no space goes to hf_cuda_core.free;
     * `of` knows spaces alone: -ENOENT. */
    struct hf_space_functions spaces;
    /* hf_owner_of() of what no allocator owns. Asks the driver if a runtime was found; loads
     * nothing. */
    void (*describe)(const void *ptr, struct hf_owner *owner);
    /* Records what others got, so that free() and its kind send it home. */
    void (*given)(const struct hf_cuda_given *given);
    /* Frees what is homefree's, or others' of another kind than the function takes; or calls it.
     * The function's result. */
    int (*returned)(const struct hf_cuda_returned *returned);
    /* The code that got the memory that an address is recorded in, which may be unloaded by now;
     * NULL if none is. */
    const void *(*caller_of)(const void *ptr);
    /* In a forked child, before anything else uses the satellite there. */
    void (*in_child)(void);
};

/* Of libhomefree. */
struct hf_cuda_core {
    const struct hf_region_bounds *region;
    const struct hf_options *options;
    /* hf_malloc() and hf_free(). */
    void *(*malloc)(size_t size);
    void (*free)(void *ptr);
    /* hf_space_alloc() and hf_space_free() on behalf of a caller, with watches; and what tells
     * these that a block of a space was resized where it is. */
    int (*alloc_for)(void **out, enum hf_space_kind kind, int device, size_t size, size_t alignment,
                     void *stream, const void *caller);
    int (*free_for)(void *ptr, void *stream, const void *caller);
    void (*resized)(void *ptr, size_t size, const void *caller);
    /* hf_hosted_map() and hf_hosted_unmap(), patient with forks. */
    void *(*lend)(const struct hf_hosted *hosted, size_t size, size_t alignment);
    void (*take_back)(void *at, size_t size);
    /* owner/foreign.h and owner/foreign_pages.h; `ask` makes routed calls ask who owns a foreign
     * pointer. */
    unsigned (*foreign_reserve)(void);
    void (*foreign_publish)(unsigned number, const struct hf_foreign_allocator *allocator);
    bool (*mark_pages)(const void *start, size_t size, unsigned number);
    void (*ask)(void);
    void (*free_foreign)(void *ptr);
    int (*pin)(const void *code); /* hf_release_pin() */
    /* The ends of the process. device: -1 for pinned memory. */
    void (*corrupted)(const void *ptr, const void *caller, enum hf_corruption purpose,
                      enum hf_corruption_kind kind, int device) __attribute__((noreturn));
    void (*fatal)(struct hf_text *text) __attribute__((noreturn));
};

#endif
