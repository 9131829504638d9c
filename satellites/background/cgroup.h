/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory limits of the process's cgroups, of version 1 or 2, from the kernel's files.
 *
 * Owns nothing; the caller keeps what is found. Allocates nothing, keeps no descriptor. `root` is
 * put in front of every path: "" but in tests. One thread.
 */
#ifndef HOMEFREE_SATELLITES_BACKGROUND_CGROUP_H
#define HOMEFREE_SATELLITES_BACKGROUND_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HF_CGROUP_LEVELS = 16 };
struct hf_cgroup {
    bool found, is_first; /* is_first: version 1 */
    size_t top;           /* the length of the mount point, where the tree that is seen begins */
    size_t count;         /* of the levels that have a limit; none: the process's own */
    struct hf_cgroup_level {
        size_t length; /* of its directory's path */
        uint64_t limit;
    } levels[HF_CGROUP_LEVELS];
    char directory[PATH_MAX]; /* the process's own */
};

/* Finds the cgroup that limits the process's memory, and its limits up the tree; with `unified`,
 * that of version 2, whatever controls memory. */
void hf_cgroup_find(const char *root, bool unified, struct hf_cgroup *out);

struct hf_cgroup_use {
    uint64_t usage; /* bytes, but for file pages that nobody uses */
    uint64_t limit; /* 0: there is none */
};

/* Reads what is used of the limit that is nearest, by per cent. False: nothing can be read. */
bool hf_cgroup_read(const struct hf_cgroup *cgroup, struct hf_cgroup_use *out);

/* Of `limit`, rounded down. */
static inline unsigned hf_cgroup_per_cent(const struct hf_cgroup_use *use)
{
    return use->limit != 0 ? (unsigned)((double)use->usage * 100 / (double)use->limit) : 0;
}

#endif
