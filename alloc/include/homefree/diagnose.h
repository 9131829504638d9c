/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/diagnose.h - what diagnostics mode finds during a part of a run.
 *
 * A process is diagnosed if `homefree run --diagnose` started it, or libhomefree-diagnose.so is
 * preloaded. Everywhere else these functions say so and do nothing.
 */
#ifndef HOMEFREE_DIAGNOSE_H
#define HOMEFREE_DIAGNOSE_H

#include <homefree/base.h>
#include <homefree/watch.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A part of a run: what is found from hf_findings_begin() on. */
struct hf_findings;

enum hf_found_severity {
    HF_FOUND_NOTE,
    HF_FOUND_WARNING, /* undefined behaviour that the usual allocators survive */
    HF_FOUND_ERROR    /* the process would die, or memory would be damaged */
};

/* A place in the code. */
struct hf_found_place {
    const char *object;   /* path of the shared object; NULL: the place is unknown */
    const char *function; /* the function that was called there: "malloc", "PyMem_Free", … */
    uint64_t offset;      /* of the return address, in the object's file */
};

/* What was found, by rule and places. Caller-sized. Texts stay valid until the process ends. */
struct hf_found {
    size_t size;
    const char *rule;             /* as in homefree-report(1) */
    const char *remedy;           /* a sentence */
    const char *allocator;        /* name of the block's allocator; NULL: unknown */
    const char *allocator_object; /* path of the shared object that holds it; NULL: unknown */
    uint64_t count;               /* times, in this part of the run */
    uint64_t bytes;               /* sum of the blocks' sizes, where they are known */
    struct hf_found_place allocated, freed;
    struct hf_found_place first_freed; /* of a block that was freed twice */
    int32_t severity;                  /* enum hf_found_severity */
    uint32_t reserved;
};

/*
 * Begins a part of a run. Parts may overlap. It counts what any thread of the process does.
 *
 * Parameters:
 *   out  out: the part
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL   out is NULL
 *   -ENOSYS   the process is not diagnosed
 *   -ENOTSUP  it only counts (`--diagnose=count`)
 *   -ENOMEM   there is no memory
 *   -EAGAIN   another thread is recording something, and takes long
 * Frees: the caller calls hf_findings_end().
 * Threads: safe; takes a lock that is held briefly.
 * Fork: safe; a part that began in the parent counts in the child from the fork on.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_findings_begin(struct hf_findings **out);

/*
 * Returns the findings of a part, one with each call, and then 0. The next call begins anew, with
 * what was found by then. One thread at a time may ask about a part.
 *
 * Parameters:
 *   findings  in: from hf_findings_begin()
 *   out       out: the finding
 * Result: 1: a finding; 0: there is no other one; or a negative errno.
 * Errors:
 *   -EINVAL  a parameter is NULL, or out's size is too small
 *   -EAGAIN  another thread is recording something, and takes long; ask again
 * Frees: nothing.
 * Threads: safe; takes a lock that is held briefly.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_findings_next(struct hf_findings *findings, struct hf_found *out);

/*
 * Ends a part of a run. Does nothing with NULL.
 *
 * Parameters:
 *   findings  in: from hf_findings_begin()
 * Result: none.
 * Errors: none.
 * Frees: findings.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API void hf_findings_end(struct hf_findings *findings);

/*
 * Looks for memory that was lost during a watch (homefree/watch.h). Each block becomes a finding of
 * the rule lost-block.
 *
 * A block of the heap is lost if the thread that began the watch allocated it since then, nobody
 * has freed it, and no word in the process's memory points to it or into it, but for words in lost
 * blocks. A word also counts as a pointer if its upper 16 bits are a tag, or if it is two digits of
 * a Python int. So what a cache, a global variable, an object or the stack of a thread holds is not
 * lost. What the interpreter itself, the dynamic linker or homefree allocates is never reported.
 *
 * What is not seen, and so may be reported although it is not lost: pointers that only the
 * registers of another thread, the kernel or a device hold, and pointers that are encrypted,
 * compressed or not aligned. What is missed: blocks of other threads, and those that a stale value
 * points to.
 *
 * All memory in use is read once, if there are such blocks. It gives up after 30 seconds.
 *
 * Parameters:
 *   watch  in: from hf_watch_begin(), open or ended
 *   out    out: how many blocks were lost; those of earlier calls for the watch count again
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL   a parameter is NULL
 *   -ENOSYS   the process is not diagnosed
 *   -ENOTSUP  it only counts (`--diagnose=count`), or another instance of libhomefree is the heap
 *   -ETIME    it took too long; nothing was found
 *   -EAGAIN   another thread is looking, or the system refuses memory
 * Frees: nothing.
 * Threads: safe, on the thread that began the watch; others may run.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_findings_lost(struct hf_watch *watch, uint64_t *out);

#ifdef __cplusplus
}
#endif
#endif
