/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Units of the region that pages/ gave and no span has. A granule (2 MiB) knows which of its units
 * these are; a run of free ones is found by its length, in the fullest granule that has one. Units
 * come from pages/ in pieces that grow along with the heap, to whole granules, so that a busy heap
 * fills huge pages.
 *
 * units.c owns them. With the spans' lock.
 */
#ifndef HOMEFREE_ALLOC_SPANS_UNITS_H
#define HOMEFREE_ALLOC_SPANS_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* False if there is no memory. */
bool hf_units_start(void);

/* How many local heaps there are. */
void hf_units_have_users(uint64_t count);

/* Whether that needs no more from pages/. */
bool hf_units_have(unsigned units);

/* Units side by side, at most HF_UNITS_MOST. NULL if there is no memory. With checks:hardened,
 * nobody may touch the last page; it stays so when the units are given back, for whoever takes them
 * next. */
char *hf_units_take(unsigned units);

/* A unit was mapped anew: its last page is as the others are. */
void hf_unit_is_open(const char *at);

/* Gives back what hf_units_take() gave. */
void hf_units_give(char *at, unsigned units);

/* Gives what has been free since the last call, or all that is free, back: whole pieces to pages/,
 * the memory of other units to the system. */
void hf_units_trim(bool all);

/* Whether most units are free, and many of those may have memory. */
bool hf_units_are_idle(void);

/* Bytes of units that no span has: those that may have memory, and those that have none; and of
 * units that a span has. About; no lock. */
uint64_t hf_units_dirty(void);
uint64_t hf_units_clean(void);
size_t hf_units_used(void);

#endif
