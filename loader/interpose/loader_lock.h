/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs a function under the dynamic loader's lock (dl_load_lock). No other thread can be inside
 * dlopen() or dlclose() meanwhile, so all listed objects are relocated and the lists are stable.
 *
 * glibc exposes that lock only to constructors and to IFUNC resolvers called by dlsym()
 * (dlfcn/dlsym.c and elf/dl-sym.c hold it during the lookup and the resolver; glibc 2.17 to 2.42).
 * homefree therefore exports an IFUNC symbol whose resolver does the work, and looks it up.
 * tests/loader/test_loader_lock.c verifies this on the running libc.
 */
#ifndef HOMEFREE_LOADER_INTERPOSE_LOADER_LOCK_H
#define HOMEFREE_LOADER_INTERPOSE_LOADER_LOCK_H

/* Calls function(context) on this thread under the loader's lock. The lock is recursive, so a
 * constructor may call this. Result: 0, or -ENOSYS if the loader did not call back (nothing ran).
 * Must not be called from an IFUNC resolver, nor with a lock held that a constructor may want. */
int hf_loader_lock_run(void (*function)(void *context), void *context);

#endif
