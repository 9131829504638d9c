/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/fail.h - allocation failure on demand: the Nth call from now on returns no memory.
 *
 * For tests of error paths. homefree/check.h and Python's homefree.check build on it.
 *
 *     hf_fail_at(3, 0);
 *     struct list *list = list_new(); // its third allocation returns NULL with ENOMEM
 *     struct hf_fail_counts counts = {.size = sizeof counts};
 *     hf_fail_end(0, &counts);
 *
 * A call is one request for a block of the heap: malloc, calloc, realloc, reallocarray, the aligned
 * functions, and operator new, of modules that are linked with the shim, adopted, or on the heap
 * because the whole process is; the same functions by their homefree names; and, after
 * hf_python_install(), the requests of CPython's and NumPy's allocators that reach the heap. A
 * function of homefree that returns memory makes its calls on behalf of its caller: hf_strdup(),
 * hf_getline(), hf_release_new(). What homefree allocates while it stands in for a function that
 * asks for no memory of the heap, such as dlopen(), does not count. free() and realloc() with size
 * 0 do not count either, nor do requests that libc's own malloc serves, and requests of one thread
 * while another one forks.
 *
 * A call that fails returns NULL, sets errno to ENOMEM, and changes nothing. posix_memalign()
 * returns ENOMEM. operator new calls the new handler, as always, and then throws std::bad_alloc or
 * returns nullptr. In Python the failing function raises MemoryError.
 *
 * While any thread counts, every call of every thread takes the heap's slow path. While none does,
 * counting costs nothing.
 */
#ifndef HOMEFREE_FAIL_H
#define HOMEFREE_FAIL_H

#include <homefree/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Flags of hf_fail_at(). HF_FAIL_PROCESS: counts the calls of all threads, instead of the calling
 * thread's. HF_FAIL_ONWARDS: all later calls fail, too, as when memory is really exhausted. */
#define HF_FAIL_PROCESS 1U
#define HF_FAIL_ONWARDS 2U

/* The most threads that can count at once. */
#define HF_FAIL_THREADS_MAX 16

/* What has been counted. Caller-sized. */
struct hf_fail_counts {
    size_t size;
    uint64_t calls;  /* since hf_fail_at(), those that failed included */
    uint64_t failed; /* of them, made to fail */
};

/*
 * Counts calls from now on, and makes one of them fail.
 *
 * Counting starts at zero again if the thread, or with HF_FAIL_PROCESS the process, was counting
 * already. A thread and the process count independently, and a call fails if either says so.
 *
 * Parameters:
 *   call   in: the call that fails; 1 is the next one; 0 for none, which only counts
 *   flags  in: HF_FAIL_PROCESS, HF_FAIL_ONWARDS, or 0
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL   flags contains an unknown flag
 *   -ENOSPC   HF_FAIL_THREADS_MAX threads are counting
 *   -ENOTSUP  this instance of libhomefree forwards to one that cannot count
 * Frees: nothing. Ended with hf_fail_end(), on the same thread unless flags has HF_FAIL_PROCESS; a
 *   thread that counts must not exit before.
 * Threads: safe.
 * Fork: safe; the child of a thread that counts goes on counting, for itself.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_fail_at(uint64_t call, unsigned flags);

/*
 * Tells what has been counted so far.
 *
 * Parameters:
 *   flags  in: HF_FAIL_PROCESS or 0: which of the two counts
 *   out    out: the counts
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL    flags contains another flag, out is NULL, or its size is too small
 *   -EALREADY  nothing is being counted
 *   -ENOTSUP   this instance of libhomefree forwards to one that cannot count
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_fail_count(unsigned flags, struct hf_fail_counts *out);

/*
 * Ends counting. No call fails any more.
 *
 * Parameters:
 *   flags  in: HF_FAIL_PROCESS or 0: which of the two
 *   out    out: the counts; may be NULL
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL    flags contains another flag, or the size of out is too small; counting goes on
 *   -EALREADY  nothing is being counted
 *   -ENOTSUP   this instance of libhomefree forwards to one that cannot count
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_fail_end(unsigned flags, struct hf_fail_counts *out);

#ifdef __cplusplus
}
#endif
#endif
