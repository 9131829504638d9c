/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/private.h - private copies: a shared object with globals of its own.
 */
#ifndef HOMEFREE_PRIVATE_H
#define HOMEFREE_PRIVATE_H

#include <homefree/base.h>

#include <stdint.h>

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
 * If the copy is loaded, those pages of its code and constants that are as in the original are from
 * then on the original's in memory, so that all copies share them. Whoever writes into the
 * original's file, in place of replacing it, then changes the copy, as with any loaded object.
 * Nothing is shared if the original is another file by now, or was written to.
 *
 * Parameters:
 *   path  in: as hf_private_copy() wrote it
 * Result: 0, also if the file was removed before; otherwise a negative errno.
 * Errors:
 *   -EINVAL  path is NULL
 *   -ENOENT  path is not a copy made by this process
 *   others   as unlink(2); the file is removed when the process exits
 * Frees: the file; a loaded copy stays loaded, and its file's room on the disk is in use as long.
 * Threads: safe, also while others run the copy's code; takes the dynamic loader's lock.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_private_remove(const char *path);

/*
 * Lends a loaded private copy to an interpreter of a group (homefree/interpreters.h). When the
 * interpreter has ended, the copy is made as it was before any of its code ran: its destructors run
 * as at dlclose(), and its data is as in the file again. Then another interpreter can reuse it, so
 * that interpreters that come and go do not fill the process with copies.
 *
 * A copy of which something is left then stays as it is, for ever: threads that it has started, and
 * thread-local objects with destructors in threads that live on. hf_interpreters_leaks() names it.
 *
 * Call it when dlopen() has returned, before anything of the copy is called, on the thread that has
 * called hf_private_copy().
 *
 * Parameters:
 *   path         in: the original, as hf_private_copy() was given it
 *   handle       in: of the loaded copy, whose file is not removed yet
 *   interpreter  in: CPython's number for it (hf_interpreter_current())
 * Result: 0 or a negative errno; then the copy stays as it is when its interpreter has ended, and
 *   the interpreter's memory stays as well.
 * Errors:
 *   -EINVAL   path or handle is NULL or wrong, or the interpreter is the main one
 *   -EBUSY    the copy's constructors have made keys of thread-specific data
 *   -ENOTSUP  the copy cannot be made new: its file is of an unusual kind
 *   -ENOMEM   there is no memory
 *   others    as open(2) and read(2)
 * Frees: nothing; the handle must stay open.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_private_lend(const char *path, void *handle, int64_t interpreter);

/*
 * Lends an interpreter a copy that one had that has ended. An interpreter takes over all copies of
 * another one, so it uses those that it can before it makes new ones. The copy's constructors run,
 * as in dlopen().
 *
 * Parameters:
 *   path         in: the original
 *   interpreter  in: CPython's number for it
 * Result: the handle, of dlopen(); NULL if there is none, or the original is another file now.
 * Errors: none.
 * Frees: nothing; the handle must stay open.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API void *hf_private_reuse(const char *path, int64_t interpreter);

#ifdef __cplusplus
}
#endif
#endif
