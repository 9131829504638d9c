/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The clocks in nanoseconds. The coarse ones tell some milliseconds; libc reads them without a
 * system call, which a sandbox may have forbidden, and without the processor's time stamp counter,
 * which a process may have forbidden itself (PR_SET_TSC; then SIGSEGV). Any thread, at any stage,
 * in signal handlers too.
 */
#ifndef HOMEFREE_ALLOC_BASE_CLOCK_H
#define HOMEFREE_ALLOC_BASE_CLOCK_H

#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t hf_clock_nanoseconds(struct timespec time)
{
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* clock: CLOCK_MONOTONIC_COARSE or CLOCK_REALTIME_COARSE. */
static inline uint64_t hf_clock(clockid_t clock)
{
    struct timespec time = {0, 0};
    (void)clock_gettime(clock, &time);
    return hf_clock_nanoseconds(time);
}

/* Any clock, exactly, by a system call. Not in a process that may have confined itself. */
static inline uint64_t hf_clock_exact(clockid_t clock)
{
    struct timespec time = {0, 0};
    (void)syscall(SYS_clock_gettime, clock, &time);
    return hf_clock_nanoseconds(time);
}

#endif
