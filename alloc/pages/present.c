/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See present.h.
 */
#include "alloc/pages/present.h"

#include "alloc/base/options.h"
#include "alloc/base/uncancelled.h"
#include "alloc/heap/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#ifndef MADV_POPULATE_WRITE
#    define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

enum { SHARE = 8 };
#define LEAST ((size_t)1 << 20)              /* a smaller heap gains nothing */
enum { THP_DEFAULT, THP_ALWAYS, THP_NEVER }; /* of the option thp */

/* Up to so much of pages/. Both are written at the start. */
static size_t enough;
static bool never; /* the system's setting */

/* ---- asking ---- */

/* Reads the beginning of a file as a string; false if there is none. */
static bool read_file(const char *path, char *text, size_t size)
{
    const int file = hf_open_uncancelled(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    const ssize_t length = hf_read_uncancelled(file, text, size - 1);
    hf_close_uncancelled(file);
    text[length > 0 ? length : 0] = '\0';
    return length > 0;
}

/* The limit in one file; SIZE_MAX for none. */
static size_t limit_in(const char *directory, const char *path, size_t length, const char *name)
{
    char file[512], text[32] = {0};
    size_t value = 0;
    const size_t before = strlen(directory), behind = strlen(name) + 1;
    if (before + length + behind > sizeof file)
        return SIZE_MAX;
    char *end = (char *)mempcpy(mempcpy(file, directory, before), path, length);
    (void)mempcpy(end, name, behind);
    if (!read_file(file, text, sizeof text) || text[0] < '0' || text[0] > '9')
        return SIZE_MAX;
    for (const char *at = text; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (size_t)(*at - '0'), &value))
            return SIZE_MAX;
    return value;
}

/* Of the process's own cgroup, or of what a container shows as the root. */
static size_t cgroup_limit(void)
{
    static const struct {
        const char *start, *directory, *name;
    } kinds[] = {
        {"0::", "/sys/fs/cgroup", "/memory.max"},
        {":memory:", "/sys/fs/cgroup/memory", "/memory.limit_in_bytes"},
    };
    char text[1024] = {0}; /* libc's string functions look at more of it */
    size_t limit = SIZE_MAX;
    if (!read_file("/proc/self/cgroup", text, sizeof text))
        return SIZE_MAX;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && limit == SIZE_MAX; i++) {
        const char *path = strstr(text, kinds[i].start);
        if (path == NULL)
            continue;
        path += strlen(kinds[i].start);
        const size_t length = strcspn(path, "\n");
        limit = limit_in(kinds[i].directory, path, length > 1 ? length : 0, kinds[i].name);
        if (limit == SIZE_MAX && length > 1)
            limit = limit_in(kinds[i].directory, "", 0, kinds[i].name);
    }
    return limit;
}

void hf_present_start(void)
{
    char text[64] = {0};
    struct rlimit data;
    const int saved_errno = errno;
    never = !read_file("/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof text) ||
            strstr(text, "[never]") != NULL;
    if (!never && getrlimit(RLIMIT_DATA, &data) == 0 && data.rlim_cur == RLIM_INFINITY)
        enough = cgroup_limit() / 2;
    errno = saved_errno;
}

/* ---- advising ---- */

static void advise(void *at, size_t size, int advice)
{
    const int saved_errno = errno;
    (void)madvise(at, size, advice);
    errno = saved_errno;
}

size_t hf_present_ahead(size_t used, size_t taken)
{
    return used >= LEAST && taken < enough ? used / SHARE : 0;
}

/* Before Linux 5.14, in vain; it costs little beside the faults that follow. */
void hf_present_make(void *at, size_t size)
{
    advise(at, size < HF_PRESENT_MOST ? size : HF_PRESENT_MOST, MADV_POPULATE_WRITE);
}

void hf_present_huge(void *at, size_t size)
{
    if (hf_options.thp == THP_DEFAULT)
        advise(at, size, MADV_HUGEPAGE);
}

void hf_present_advise(void *at, size_t size)
{
    if (hf_options.thp == THP_ALWAYS && size >= HF_PAGE_2M)
        advise(at, size, MADV_HUGEPAGE);
    else if (hf_options.thp == THP_NEVER && !never)
        advise(at, size, MADV_NOHUGEPAGE);
}
