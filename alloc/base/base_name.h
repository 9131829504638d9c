/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The last part of a path. Owns nothing; any thread, at any stage.
 */
#ifndef HOMEFREE_ALLOC_BASE_BASE_NAME_H
#define HOMEFREE_ALLOC_BASE_BASE_NAME_H

#include <string.h>

/* Returns what follows the last slash of a path, which may be all of it. */
static inline const char *hf_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

#endif
