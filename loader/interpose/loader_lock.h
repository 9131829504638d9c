/*
 * Runs a function under the dynamic loader's lock (dl_load_lock), where no other thread can be
 * half-way through a dlopen() or dlclose(): only then are all listed objects relocated, and the
 * lists stable.
 *
 * glibc hands that lock out to constructors, and to IFUNC resolvers that dlsym() calls
 * (dlfcn/dlsym.c and elf/dl-sym.c: the lookup and the resolver run with the lock held; glibc 2.17
 * to 2.42). So homefree exports an IFUNC symbol whose resolver does the work, and looks it up.
 * tests/loader/test_loader_lock.c proves it on the libc that runs.
 */
#ifndef HOMEFREE_LOADER_LOCK_H
#define HOMEFREE_LOADER_LOCK_H

/* Effect: calls function(context) on this thread under the loader's lock. Recursive: may be called
 * in a constructor. Result: 0, or -ENOSYS when the loader did not call back (nothing was run).
 * Must not be called from an IFUNC resolver, nor with a lock held that a constructor may want. */
int hf_loader_lock_run(void (*function)(void *context), void *context);

#endif
