/*
 * The functions behind homefree/host.h, which describes them for users: CPython and NumPy allocate
 * from the heap. host.c owns the lock over installing.
 */
#ifndef HOMEFREE_HOST_H
#define HOMEFREE_HOST_H

/* Registers the fork handler. Called once, by the library's constructor. */
void hf_host_start(void);

#endif
