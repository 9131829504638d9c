/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/stats.h - the heap's counters.
 */
#ifndef HOMEFREE_STATS_H
#define HOMEFREE_STATS_H

#include <homefree/base.h>

#ifdef __cplusplus
/* A function may share its struct's name, as stat(2) does. */
#    pragma GCC diagnostic push
#    pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#endif

/* The counters. Caller-sized. */
struct hf_stats {
    size_t size;
    uint64_t region_reserved; /* bytes of address space that the region may take */
    uint64_t region_used;     /* bytes of the region that the heap has taken so far */
    uint64_t allocated;       /* bytes in live blocks */
    uint64_t active;          /* bytes in pages that hold live blocks */
    uint64_t resident;        /* upper bound of the physical memory, in bytes */
    uint64_t metadata;        /* bytes of the heap's own bookkeeping */
    uint32_t arenas;          /* threads' parts of the heap, those of ended threads too */
    uint32_t forwards;        /* 1 if this instance of libhomefree forwards to another one */
    uint64_t releases_live;   /* deleters whose pointer has not been freed yet */
    uint64_t releases_run;    /* deleters that freed their pointer */
    uint64_t releases_leaked; /* deleters that could not free their pointer safely */
};

/*
 * Reads the heap's counters. Not for fast paths.
 *
 * Parameters:
 *   out  out: the counters
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  out is NULL, or its size is too small
 *   -ENOMEM  there is no memory to gather the counters
 *   -EAGAIN  another thread is forking, and takes long
 * Frees: nothing.
 * Threads: safe; takes the heap's locks.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_stats(struct hf_stats *out);

/* What another allocator of the process says of itself. The strings are never freed. */
struct hf_other_stats {
    const char *allocator; /* "jemalloc", as in struct hf_owner */
    const char *object;    /* path of the shared object that it lives in */
    uint64_t live;         /* bytes in live blocks, and in those that its threads have at hand */
};

/* Called for each, in the calling thread, without a lock. */
typedef void hf_other_stats_visitor(const struct hf_other_stats *stats, void *context);

/*
 * Asks each known allocator that lives in a loaded object, and that has counters and a function for
 * them that any thread may call: jemalloc's mallctl, unless it was built without statistics. Not
 * for fast paths.
 *
 * Parameters:
 *   visit    in: is told of each allocator that answers
 *   context  in: for visit
 * Result: 0 or a negative errno.
 * Errors:
 *   -ENOTSUP  the heap is that of a version without this
 * Frees: nothing.
 * Threads: safe; allocators take locks of theirs.
 * Fork: safe, as far as theirs is.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_stats_of_others(hf_other_stats_visitor *visit, void *context);

#ifdef __cplusplus
}
#    pragma GCC diagnostic pop
#endif
#endif
