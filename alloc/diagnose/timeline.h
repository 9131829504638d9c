/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The timeline: live bytes of each object's blocks, written into the report now and then. A moment
 * is taken by whichever thread has its turn (sampling.h) when it is due, so a process that does not
 * allocate has none.
 *
 * Moments become rarer, so that their number grows with the logarithm of the time: at first one in
 * 10 ms, and half as many after every 256. Taking them costs at most one percent of the
 * time.
 *
 * Any thread, at any stage; takes the records' lock when a moment is due. Owns what it wrote last.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_TIMELINE_H
#define HOMEFREE_ALLOC_DIAGNOSE_TIMELINE_H

#include <stdint.h>

/* Begins. */
void hf_timeline_start(void);

/* Takes a moment if one is due. now: of CLOCK_MONOTONIC_COARSE, in nanoseconds. */
void hf_timeline_tick(uint64_t now);

/* Takes the last moment, if there was one before. */
void hf_timeline_end(void);

/* Takes no more. */
void hf_timeline_stop(void);

/* For the child of fork(2), after hf_counts_in_child(). */
void hf_timeline_in_child(void);

#endif
