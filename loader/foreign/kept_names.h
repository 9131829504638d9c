/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeps names of objects that contain an allocator beyond the lifetime of the dynamic linker's
 * copy.
 */
#ifndef HOMEFREE_LOADER_FOREIGN_KEPT_NAMES_H
#define HOMEFREE_LOADER_FOREIGN_KEPT_NAMES_H

/* Returns a permanent copy of the name, usually the same one for the same name; "(unnamed)" when
 * there is no room left. Any thread; takes no lock, allocates nothing. */
const char *hf_keep_name(const char *name);

#endif
