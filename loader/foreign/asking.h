/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Switches on the foreign-allocator lookup in routed calls, as soon as the first foreign allocator
 * is found. Until then routed calls skip the lookup.
 */
#ifndef HOMEFREE_LOADER_FOREIGN_ASKING_H
#define HOMEFREE_LOADER_FOREIGN_ASKING_H

/* Sets the function that enables the lookup. Called once, by the library's constructor (init.c). */
void hf_asking_offer(void (*begin)(void));

/* Enables the lookup. Any thread, also in a signal handler; takes no lock. */
void hf_asking_begin(void);

#endif
