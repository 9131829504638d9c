/*
 * Work deferred while the process forks (heap/fork_gate.h): freed blocks, linked through
 * themselves, and requests to close the fast paths or open them. deferred.c owns the lists. Entries
 * are added without a lock, and processed inside the gate by the thread that opens it or finds it
 * open again.
 */
#ifndef HOMEFREE_DEFERRED_H
#define HOMEFREE_DEFERRED_H

/* A live block whose free needs a lock, or is watched. */
void hf_put_off_free(void *ptr, const void *caller);

#endif
