/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/watch.h - watches: which memory crossed the boundary between two shared objects.
 *
 * While it is open, a watch records every block that the heap or a space (homefree/space.h) hands
 * out and takes back, in all threads, together with the shared object whose code made the call.
 * homefree/check.h builds assertions on it. A block of a space is taken back when it is freed, also
 * while a device still uses it.
 *
 * The calling object is the one whose code wrote malloc, free, new or delete; the shim, routing and
 * libhomefree are looked through. Modules that are linked with the shim are identified exactly, up
 * to 32 of them. Other objects are identified by the return address. If freeing is the last thing a
 * function does, compilers emit a jump, and the call counts as the function's caller's; libstdc++'s
 * operator delete is such a function. What a std::string does inside libstdc++ counts as
 * libstdc++'s. What CPython's own functions allocate and free counts as the interpreter's.
 *
 * A crossing is a block that one object allocated and another freed or resized. A resized block
 * belongs to the object that resized it. A foreign block that is freed through the heap, with
 * hf_free() or as a module's free(), crosses as well, from the object that contains its allocator;
 * for a block of libc's malloc that is libc, whoever called malloc. A block allocated before the
 * watch began has no known allocating object, even if another watch knows it; freeing it is counted
 * (`before`), and is not a crossing.
 *
 * While any watch is open, every call takes the heap's slow path and a lock. While none is,
 * watching costs nothing. Calls in progress while a watch begins or ends may be missed. Watches may
 * overlap; each has its own beginning and records. After fork(2) the child has its own copies of
 * all watches, and open ones stay open.
 */
#ifndef HOMEFREE_WATCH_H
#define HOMEFREE_WATCH_H

#include <homefree/base.h>

#ifdef __cplusplus
/* A function may share its struct's name, as stat(2) does. */
#    pragma GCC diagnostic push
#    pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#endif

struct hf_watch;

/* The most watches that can be open at once. */
#define HF_WATCHES_MAX 16

/* The totals of a watch. Caller-sized. */
struct hf_watch_report {
    size_t size;
    uint64_t allocations; /* blocks that the heap or a space handed out */
    uint64_t frees;       /* blocks that they took back */
    uint64_t before;      /* of `frees`, blocks that were handed out before the watch began */
    uint64_t foreign;     /* foreign blocks that were freed through the heap */
    uint64_t crossings;   /* blocks that crossed */
    uint64_t dropped;     /* calls that were not recorded because the watch was full */
};

/* The blocks that crossed from one object to another. Caller-sized. */
struct hf_crossing {
    size_t size;
    const char *allocated_by; /* path of the shared object or program; "" if unknown */
    const char *freed_by;     /* the same */
    uint64_t count;           /* blocks */
    uint64_t bytes;           /* their sum, as requested; for foreign blocks, as usable */
};

/* What happened at one address. Caller-sized. */
struct hf_watch_block {
    size_t size;
    uint32_t allocated;       /* times that a block at the address was handed out */
    uint32_t freed;           /* times that a block at the address was freed */
    uint32_t freed_unmatched; /* of `freed`, frees without a recorded allocation: 1 for a block from
                                 before the watch that was freed once */
    const char *allocated_by; /* who allocated the last one; "" if unknown */
    const char *freed_by;     /* who freed the last one; "" if none was freed, or unknown */
};

/* The blocks that an object has left. Caller-sized. */
struct hf_left {
    size_t size;
    const char *allocated_by; /* path of the shared object or program; "" if unknown */
    uint64_t count;           /* blocks */
    uint64_t bytes;           /* their sum, as requested */
};

/* Receives one pair of objects. The crossing is valid during the call, its strings as long as the
 * watch. */
typedef void hf_crossing_visitor(const struct hf_crossing *crossing, void *context);

/* Receives what one object has left; valid in the same way. */
typedef void hf_left_visitor(const struct hf_left *left, void *context);

/*
 * Begins a watch.
 *
 * Parameters:
 *   out       out: the watch; unchanged on error
 *   capacity  in, addresses: how many different ones the watch can record, at most 2^26; 0 for
 *             half a million, which takes 32 MiB of address space and memory only as it is used
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL   out is NULL, or capacity is too large
 *   -ENOMEM   there is no memory
 *   -ENOSPC   HF_WATCHES_MAX watches (16) are open
 *   -ENOTSUP  this instance of libhomefree forwards to one that has no watches
 * Frees: the caller frees the watch with hf_watch_drop().
 * Threads: safe; takes the dynamic loader's lock.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_watch_begin(struct hf_watch **out, size_t capacity);

/*
 * Ends a watch. Its records stay.
 *
 * Parameters:
 *   watch  in/out: from hf_watch_begin()
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL    watch is NULL
 *   -EALREADY  the watch has ended before
 * Frees: nothing.
 * Threads: safe, on any thread; takes the dynamic loader's lock.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_watch_end(struct hf_watch *watch);

/*
 * Ends a watch if it is open, and frees it.
 *
 * Parameters:
 *   watch  in: from hf_watch_begin(); NULL does nothing
 * Result: none.
 * Errors: none.
 * Frees: the watch, and all strings that it returned.
 * Threads: safe; takes the dynamic loader's lock. No other thread may use the watch any more.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API void hf_watch_drop(struct hf_watch *watch);

/*
 * Reports what a watch has recorded so far.
 *
 * Before glibc 2.35 the names of objects that have been unloaded in between are unknown.
 *
 * Parameters:
 *   watch    in: from hf_watch_begin(), open or ended
 *   out      out: the totals; may be NULL
 *   visit    in: called for each pair of objects that memory crossed between; may be NULL
 *   context  in: passed to visit
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  watch is NULL, or the size of out is too small
 * Frees: nothing; the watch owns the strings.
 * Threads: safe; before glibc 2.35 takes the dynamic loader's lock.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_watch_report(struct hf_watch *watch, struct hf_watch_report *out,
                           hf_crossing_visitor *visit, void *context);

/*
 * Reports what happened to the blocks that start at an address.
 *
 * Parameters:
 *   watch  in: from hf_watch_begin(), open or ended
 *   block  in: the first byte of a block
 *   out    out: the counts, which are 0 if nothing was recorded
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  watch or out is NULL, or the size of out is too small
 * Frees: nothing; the watch owns the strings.
 * Threads: safe; before glibc 2.35 takes the dynamic loader's lock.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_watch_at(struct hf_watch *watch, const void *block, struct hf_watch_block *out);

/*
 * Reports the blocks of the heap and of spaces that were allocated since a watch began and have not
 * been freed since, or were not until it ended, by the object that allocated them or resized them
 * last.
 *
 * Parameters:
 *   watch    in: from hf_watch_begin(), open or ended
 *   visit    in: called for each object that has blocks left
 *   context  in: passed to visit
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  watch or visit is NULL
 * Frees: nothing; the watch owns the strings.
 * Threads: safe; before glibc 2.35 takes the dynamic loader's lock.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_watch_left(struct hf_watch *watch, hf_left_visitor *visit, void *context);

#ifdef __cplusplus
}
#    pragma GCC diagnostic pop
#endif
#endif
