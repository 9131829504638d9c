/*
 * homefree/adopt.h - adopting: a prebuilt module allocates from the heap without being relinked.
 */
#ifndef HOMEFREE_HOMEFREE_ADOPT_H
#define HOMEFREE_HOMEFREE_ADOPT_H

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
 *                    or homefree; or this copy of libhomefree forwards to one that cannot adopt
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

#ifdef __cplusplus
}
#endif
#endif
