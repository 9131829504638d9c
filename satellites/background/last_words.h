/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The option last_words: what the process's memory is used for, in a file, before the kernel may
 * kill it for that. Owns the text. For the thread; allocates nothing but what hf_trim() calls do.
 */
#ifndef HOMEFREE_SATELLITES_BACKGROUND_LAST_WORDS_H
#define HOMEFREE_SATELLITES_BACKGROUND_LAST_WORDS_H

#include "satellites/background/cgroup.h"

/* Writes the file twice: what takes no time first, and then, when every allocator has been asked to
 * give back, also what that gave, and the largest mappings. It is never there in part. */
void hf_last_words_write(const struct hf_cgroup_use *use);

#endif
