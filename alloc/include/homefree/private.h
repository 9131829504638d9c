/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/private.h - private copies: a shared object with globals of its own.
 */
#ifndef HOMEFREE_PRIVATE_H
#define HOMEFREE_PRIVATE_H

#include <homefree/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Copies the file of a shared object so that dlopen() with RTLD_LOCAL loads the copy as a separate
 * object.
 *
 * The loaded copy shares no globals, inline statics or thread-local variables with the original or
 * with other copies. What the libraries it needs define stays shared; these libraries are loaded by
 * the call. The copy is placed beside the original if that directory is writable, otherwise in a
 * directory that only this user can access, below XDG_RUNTIME_DIR, TMPDIR, /tmp or /var/tmp;
 * privileged processes use only the last two. In either place $ORIGIN means the original's
 * directory, for needed libraries and for what the copy opens.
 *
 * Must not be called from a constructor of a library that the original needs.
 *
 * Parameters:
 *   path  in: the original, which is only read
 *   out   out, size bytes: the absolute path of the copy
 *   size  in, bytes: of out; PATH_MAX always suffices
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL        path is NULL, empty or not a regular file, or out is NULL
 *   -EISDIR        path is a directory
 *   -ENAMETOOLONG  path is too long, or out is too small
 *   -ENOEXEC       the file is damaged, or is not an ELF file
 *   -ENOTSUP       the file is for another machine; or this installation has no
 *                  libhomefree-adopt.so, which a line on stderr says once
 *   -EPERM         no place allows code to be executed
 *   -ENOSPC        no place has room
 *   others         as open(2), read(2) and write(2)
 * Frees: the file is removed when the process exits or, after a crash, by the next process of the
 *   same user that makes a copy in that directory. The caller may remove it earlier, even while it
 *   is loaded, with hf_private_remove(); debuggers then find no symbols.
 * Threads: safe; takes the dynamic loader's lock, and calls malloc().
 * Fork: safe; a child leaves its parent's copies alone.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_private_copy(const char *path, char *out, size_t size);

/*
 * Removes the file of a private copy that this process has made.
 *
 * Parameters:
 *   path  in: as hf_private_copy() wrote it
 * Result: 0, also if the file was removed before; otherwise a negative errno.
 * Errors:
 *   -EINVAL  path is NULL
 *   -ENOENT  path is not a copy made by this process
 *   others   as unlink(2); the file is removed when the process exits
 * Frees: the file; a loaded copy stays loaded.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_private_remove(const char *path);

#ifdef __cplusplus
}
#endif
#endif
