/* See own_calls.c. */
#ifndef HOMEFREE_OWN_CALLS_H
#define HOMEFREE_OWN_CALLS_H

/* Leads this library's own slots of the functions that the heap calls to libc, once. The first step
 * of a copy's start. */
void hf_own_calls_bind(void);

#endif
