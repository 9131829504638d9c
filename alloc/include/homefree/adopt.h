/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/adopt.h - adopting: a prebuilt module allocates from the heap without being relinked.
 */
#ifndef HOMEFREE_ADOPT_H
#define HOMEFREE_ADOPT_H

#include <homefree/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Rebinds the allocation calls of a loaded object to the heap: the malloc family, libc's functions
 * that return memory (strdup, asprintf, getline and others), and operator new.
 *
 * Only the calls of this object are rebound, not those of the libraries it needs, nor calls of
 * functions that it defines itself. Blocks that it allocated before are still freed by their
 * owners. Either every slot is changed or none is. Calling the function again does nothing.
 * Afterwards hf_route_report() has an entry for each changed slot, or one that says why the object
 * was refused.
 *
 * Must not be called from an IFUNC resolver.
 *
 * Parameters:
 *   handle  in: from dlopen(); the object must stay loaded during the call
 * Result: the number of slots changed, or a negative errno. 0 if none is left to change, as in a
 *   module that is linked with the shim.
 * Errors:
 *   -EINVAL          handle does not denote a loaded object
 *   -EPERM           HOMEFREE_CONF says route:off
 *   -ENOTSUP         the object brings its own allocator, or is the program, libc, the C++ runtime
 *                    or homefree; or this instance of libhomefree forwards to one that cannot adopt
 *   -EACCES          a slot is read-only, or a call by which the object frees cannot be routed
 *   -ENOSPC, -E2BIG  homefree's tables are full
 *   others           as mprotect(2)
 * Frees: nothing.
 * Threads: safe; takes the dynamic loader's lock.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_adopt(void *handle);

/*
 * Makes a copy of a shared object's file in which a hidden allocator, one that is compiled into the
 * object, is replaced by the heap. To be loaded with dlopen() in place of the file; hf_adopt() then
 * rebinds its other calls.
 *
 * In the copy, the allocator's entry points (malloc, free, operator new, mallocx, mi_malloc and so
 * on) jump to the heap. They are found by the object's symbols, or by those of its debug file. The
 * copy is made only if nothing else leads into the allocator: all code is searched for calls and
 * data that would go on using it. The file itself is not changed. Libraries that the object needs
 * from directories on its search path, and that have a hidden allocator themselves, are loaded by
 * the call from copies of their own.
 *
 * Where something uses the allocator that has no like on the heap, such as a heap of its own, the
 * copy keeps it: the functions that take a block (free, realloc and so on) then ask first who owns
 * it, and send home what is not the allocator's own. The same is done in memory to an object that
 * is loaded already, if one store of one instruction at the beginning of each of these functions
 * does it, so that threads may run them meanwhile; the object then stays loaded.
 *
 * Copies are kept below XDG_CACHE_HOME or HOME/.cache, where all processes of the user share them,
 * as long as the file does not change. Where that cannot be, they go where private copies go
 * (homefree/private.h), and are removed when the process exits.
 *
 * Must not be called from a constructor of a library that the object needs.
 *
 * Parameters:
 *   path  in: the file, which is only read
 *   out   out, size bytes: the absolute path of what to load: of the copy, or of the file itself if
 *         it has no hidden allocator. After an error the reason, in one line
 *   size  in, bytes: of out; PATH_MAX always suffices
 * Result: 1 for a copy, 0 for the file itself, 2 for the file itself, which is loaded already and
 *   whose allocator has its guards now, or a negative errno.
 * Errors:
 *   -EINVAL        path is NULL, empty or not a regular file, or out is NULL
 *   -EISDIR        path is a directory
 *   -ENAMETOOLONG  path is too long, or out is too small
 *   -ENOEXEC       the file is damaged, or is not an ELF file
 *   -ENOTSUP       the file is for another machine, or its allocator cannot be replaced; or this
 *                  installation has no libhomefree-adopt.so
 *   -EBUSY         the file, or a library that would have to be replaced, is loaded already, and
 *                  cannot be changed while threads may run it
 *   -EPERM         HOMEFREE_CONF says route:off, or no place allows code to be executed, or the
 *                  system forbids changing code that is loaded
 *   -ENOSPC        no place has room
 *   others         as open(2), read(2) and write(2)
 * Frees: nothing; the copies belong to the cache, which removes them when their original changes or
 *   goes.
 * Threads: safe; no cancellation point; takes the dynamic loader's lock, and calls malloc().
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_adopt_file(const char *path, char *out, size_t size);

#ifdef __cplusplus
}
#endif
#endif
