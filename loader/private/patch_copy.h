/*
 * What has to change in a copy's bytes, so that the dynamic linker takes it for an object of its
 * own.
 */
#ifndef HOMEFREE_PATCH_COPY_H
#define HOMEFREE_PATCH_COPY_H

/*
 * Changes the copy behind a descriptor (open for writing), and loads the libraries that it needs,
 * as seen from the original's folder.
 * Result: 0, -ENOEXEC, -ENOTSUP (see elf_file.h), or what the system said.
 * Runs constructors of the libraries. Any thread.
 */
int hf_copy_patch(int descriptor, const char *folder);

#endif
