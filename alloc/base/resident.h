/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How much memory of the process is resident, as /proc tells. Owns nothing; any thread, at any
 * stage. Not in a process that may have confined itself.
 */
#ifndef HOMEFREE_ALLOC_BASE_RESIDENT_H
#define HOMEFREE_ALLOC_BASE_RESIDENT_H

#include "alloc/base/uncancelled.h"

#include <stdlib.h>
#include <string.h>

/* Bytes; 0 if /proc does not tell. Allocates nothing. */
static inline uint64_t hf_resident(void)
{
    char text[128];
    const int file = hf_open_uncancelled("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    const ssize_t length = hf_read_uncancelled(file, text, sizeof text - 1);
    hf_close_uncancelled(file);
    text[length > 0 ? length : 0] = '\0';
    const char *second = strchr(text, ' ');
    return second != NULL ? strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

#endif
