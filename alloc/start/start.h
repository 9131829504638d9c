/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Starts alloc/, for libhomefree's constructor. start.c owns the lock under which the heap starts.
 */
#ifndef HOMEFREE_ALLOC_START_START_H
#define HOMEFREE_ALLOC_START_START_H

/*
 * Runs the stages of the start in order: the seal's fork handler, the heap, the check of ownerless
 * pointers, the fork handler of the lent pages. Called under the dynamic linker's lock; a second
 * call does nothing. An earlier call into libhomefree starts the heap by itself (hf_heap_start())
 * and depends on no other stage.
 */
void hf_alloc_start_stages(void);

#endif
