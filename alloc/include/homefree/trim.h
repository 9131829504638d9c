/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/trim.h - giving unused memory back to the system, whichever allocator has it.
 */
#ifndef HOMEFREE_TRIM_H
#define HOMEFREE_TRIM_H

#include <homefree/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An allocator that was asked. Fields may be added at the end. */
struct hf_trimmed {
    const char
        *allocator; /* "homefree", "libc", "cuda", or a known one: "jemalloc", "mimalloc", … */
    const char *object; /* path of the object that it lives in; NULL for the first three */
    const char *how;    /* the function that was called; NULL if none is known */
    uint64_t before;    /* bytes of the process that were resident before the call, and */
    uint64_t after;     /* after it; other threads change that, too. 0: /proc does not tell */
};

/* Called for each allocator, in the calling thread, without a lock. The strings are never freed. */
typedef void hf_trim_visitor(const struct hf_trimmed *trimmed, void *context);

/*
 * Asks every allocator of the process to give back to the system what nobody uses: each known one
 * that lives in a loaded object, by a function of its own that any thread may call, then
 * homefree's page-locked memory (homefree/space.h; what devices have, hf_space_trim() gives back),
 * then homefree's heap, then libc (malloc_trim). The
 * mimalloc of a free-threaded CPython 3.14 is collected while the threads of its one interpreter
 * are stopped. What other threads have at hand in caches of their own stays, but for homefree's
 * heap: each of them gives back in its next call of malloc. Takes from milliseconds to half a
 * second, by how much there is to give, and whoever needs the memory again takes page faults: for
 * idle processes, and before something large begins.
 *
 * Parameters:
 *   visit    in, optional: is told of each allocator
 *   context  in: for visit
 * Result: 0 or a negative errno.
 * Errors:
 *   -EAGAIN   a fork takes long, or is the caller's; libc and other allocators were asked
 *   -ENOTSUP  the heap is that of another version of libhomefree, which has no such function
 * Frees: nothing that anybody uses.
 * Threads: safe; takes the heap's locks, and each allocator its own. With a free-threaded CPython,
 *   the caller holds no lock that Python code waits for.
 * Fork: safe for homefree and libc; in a child that was forked while other threads ran, each other
 *   allocator's own rules hold.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_trim(hf_trim_visitor *visit, void *context);

#ifdef __cplusplus
}
#endif
#endif
