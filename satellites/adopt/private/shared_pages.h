/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages of code and of constants that a loaded copy has in common with its original, and that all
 * copies then share with it in the page cache. Owns nothing; takes the dynamic linker's lock.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_PRIVATE_SHARED_PAGES_H
#define HOMEFREE_SATELLITES_ADOPT_PRIVATE_SHARED_PAGES_H

#include <sys/stat.h>

/*
 * Maps those read-only pages of the copy that are as in its original from the original's file, if
 * the copy is loaded and the original is still the file that `status` describes. What cannot be
 * shared stays as it is. Any thread, also while others run the copy's code.
 */
void hf_copy_share(const char *copy, const char *original, const struct stat *status);

#endif
