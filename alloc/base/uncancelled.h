/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The system calls of open(2), read(2), pread(2), write(2), close(2) and nanosleep(2), which in
 * libc are cancellation points. malloc() and free() must not be any: a thread that was cancelled
 * inside the heap would leave its locks taken and the fork gate occupied. Owns nothing; any thread,
 * at any stage, in signal handlers too. Results and errno as in libc.
 */
#ifndef HOMEFREE_ALLOC_BASE_UNCANCELLED_H
#define HOMEFREE_ALLOC_BASE_UNCANCELLED_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static inline int hf_open_uncancelled(const char *path, int flags)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags);
}

static inline ssize_t hf_read_uncancelled(int file, void *buffer, size_t size)
{
    return syscall(SYS_read, file, buffer, size);
}

static inline ssize_t hf_pread_uncancelled(int file, void *buffer, size_t size, uint64_t offset)
{
    return syscall(SYS_pread64, file, buffer, size, offset);
}

static inline ssize_t hf_write_uncancelled(int file, const void *buffer, size_t size)
{
    return syscall(SYS_write, file, buffer, size);
}

static inline void hf_close_uncancelled(int file)
{
    (void)syscall(SYS_close, file);
}

/* Also when signals arrive meanwhile. */
static inline void hf_sleep_uncancelled(const struct timespec *time)
{
    struct timespec left = *time;
    while (syscall(SYS_nanosleep, &left, &left) != 0 && errno == EINTR)
        continue;
}

#endif
