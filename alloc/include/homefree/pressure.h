/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/pressure.h - memory that becomes scarce: a thread that looks, and who waits for it.
 *
 * The thread gives back what the heap does not use once the process is idle, answers `homefree trim
 * --pid`, and knows how near the process is to the memory limit of its cgroups. A process has none
 * unless HOMEFREE_CONF (background, pressure, last_words) or a function of this header asks for it.
 */
#ifndef HOMEFREE_PRESSURE_H
#define HOMEFREE_PRESSURE_H

#include <homefree/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Starts the thread, unless it runs. It blocks all signals and is named "homefree". It looks once
 * a second, or twice while the heap is in use: a process that has taken no slow path of the heap
 * for a while has its unused memory given back, and what libc has kept free while the process grew
 * goes back, too. A child of fork(2) starts it again when its heap
 * first takes a slow path.
 *
 * Result: 0 or a negative errno.
 * Errors:
 *   -EPERM    HOMEFREE_CONF=background:off
 *   -EAGAIN   the system refuses another thread
 *   -ENOTSUP  this build has no libhomefree-background.so, or the heap is that of a version
 *             without it
 * Frees: nothing that anybody uses.
 * Threads: safe; takes the dynamic loader's lock.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_background_start(void);

/* Somebody who waits for pressure. */
struct hf_pressure_watch;

/* What was seen. Fields may be added at the end. */
struct hf_pressure {
    size_t size;       /* of this struct: set it before the call */
    uint64_t usage;    /* bytes that the cgroup uses, but for file pages that can go at once */
    uint64_t limit;    /* its limit, the lowest of its memory.high and memory.max up the tree, by
                          what is left; 0: none is known */
    unsigned per_cent; /* of the limit that are used */
    unsigned stalled;  /* not 0: the kernel tells that threads wait for memory (PSI) */
};

/*
 * Begins to watch the memory limit of the process's cgroups, and starts the thread. Of cgroup
 * version 2: memory.current, memory.high, memory.max and memory.pressure; of version 1:
 * memory.usage_in_bytes and memory.limit_in_bytes.
 *
 * Parameters:
 *   out       out: the watch, to be ended by hf_pressure_end()
 *   per_cent  in: from how much of the limit on there is pressure, 1 to 100
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL   an argument
 *   -EMFILE   there are 16 watches
 *   others    as hf_background_start()
 * Frees: nothing.
 * Threads: safe; takes the dynamic loader's lock.
 * Fork: safe; a child has no watches, and calls for its parent's fail there with -ECANCELED.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_pressure_begin(struct hf_pressure_watch **out, unsigned per_cent);

/*
 * Waits until there is pressure, and returns once for each time that it comes. What the caller then
 * gives back decides when it is told again: if little is, each time after twice as long, up to a
 * minute. With HOMEFREE_CONF=pressure, hf_trim() has been called before.
 *
 * Parameters:
 *   watch       in
 *   out         in/out: what was seen, as far as out->size says
 *   timeout_ms  in: how long to wait; negative: for ever
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL      an argument
 *   -ETIMEDOUT   there was none
 *   -ECANCELED   hf_pressure_cancel() was called, or the process forked
 * Frees: nothing.
 * Threads: safe, one at a time for each watch.
 * Fork: safe, as hf_pressure_begin().
 * Signals: unsafe; one that is handled does not end the wait.
 * Since: 1.0
 */
HF_API int hf_pressure_wait(struct hf_pressure_watch *watch, struct hf_pressure *out,
                            int timeout_ms);

/*
 * Makes hf_pressure_wait() return -ECANCELED, now and from now on.
 *
 * Parameters:
 *   watch  in: or NULL
 * Result: none.
 * Errors: none.
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API void hf_pressure_cancel(struct hf_pressure_watch *watch);

/*
 * Ends a watch, in which nobody waits.
 *
 * Parameters:
 *   watch  in: or NULL
 * Result: none.
 * Errors: none.
 * Frees: the watch.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API void hf_pressure_end(struct hf_pressure_watch *watch);

#ifdef __cplusplus
}
#endif
#endif
