/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Patches a private copy so that the dynamic linker treats it as an object of its own.
 *
 * Stateless: copies may be patched on any thread, each by one thread at a time; takes no lock.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_PRIVATE_PATCH_COPY_H
#define HOMEFREE_SATELLITES_ADOPT_PRIVATE_PATCH_COPY_H

/*
 * Patches the copy behind a descriptor open for reading and writing, and loads its needed libraries
 * as seen from the original's directory, which runs their constructors. Result: 0, -ENOEXEC,
 * -ENOTSUP (see elf_file.h), or another negative errno. Any thread.
 */
int hf_copy_patch(int descriptor, const char *directory);

#endif
