/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See copy_bytes.h.
 */
#include "satellites/adopt/private/copy_bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

bool hf_copy_is_same(const struct stat *one, const struct stat *other)
{
    return one->st_dev == other->st_dev && one->st_ino == other->st_ino &&
           one->st_size == other->st_size && one->st_mtim.tv_sec == other->st_mtim.tv_sec &&
           one->st_mtim.tv_nsec == other->st_mtim.tv_nsec;
}

bool hf_copy_fits(uint64_t size)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
           size <= limit.rlim_cur;
}

int hf_copy_bytes(int from, int to)
{
    struct stat status;
    if (fstat(from, &status) == 0 && !hf_copy_fits((uint64_t)status.st_size))
        return -EFBIG;
    if (ioctl(to, FICLONE, from) == 0)
        return 0;
    ssize_t moved;
    while ((moved = copy_file_range(from, NULL, to, NULL, (size_t)1 << 30, 0)) > 0)
        ;
    if (moved == 0)
        return 0;
    if (errno == ENOSPC || errno == EDQUOT || errno == EIO)
        return -errno;
    /* Not supported between these file systems or by this kernel. Bytes copied so far are kept. */
    char bytes[65536];
    while ((moved = read(from, bytes, sizeof bytes)) > 0)
        for (ssize_t done = 0, now; done < moved; done += now)
            if ((now = write(to, bytes + done, (size_t)(moved - done))) < 0)
                return -errno;
    return moved < 0 ? -errno : 0;
}

int hf_copy_open_original(const char *path)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    struct stat status;
    int error = fstat(fd, &status) != 0   ? -errno
                : S_ISDIR(status.st_mode) ? -EISDIR
                : S_ISREG(status.st_mode) ? 0
                                          : -EINVAL;
    if (error == 0)
        return fd;
    close(fd);
    return error;
}
