/*
 * A clock in nanoseconds, by the system call: libc reads the processor's time stamp counter, which
 * a process may have forbidden itself (PR_SET_TSC; then SIGSEGV). Where a coarse clock is enough,
 * libc reads no counter. Any thread, at any stage, in signal handlers too.
 */
#ifndef HOMEFREE_CLOCK_H
#define HOMEFREE_CLOCK_H

#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t hf_clock(clockid_t clock)
{
    struct timespec time = {0, 0};
    (void)syscall(SYS_clock_gettime, clock, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

#endif
