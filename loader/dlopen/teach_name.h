/* SPDX-License-Identifier: BSD-2-Clause */
/* See teach_name.c. */
#ifndef HOMEFREE_LOADER_DLOPEN_TEACH_NAME_H
#define HOMEFREE_LOADER_DLOPEN_TEACH_NAME_H

#include "loader/interpose/stubs.h"

/* Makes the dynamic linker know the object that is loaded from a path by a name without a slash,
 * which is the path's last part. Does nothing if the system lends no file in memory, or if the
 * directory has a character that means something in a search path. */
void hf_teach_name(hf_dlopen_function *original, const char *name, const char *path);

#endif
