/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which groups have crashes named, and what a handler of signals may ask: where the calling thread
 * is. The handler itself uses this unit, so its functions are handed in.
 *
 * naming.c owns the number of these groups and its lock.
 */
#ifndef HOMEFREE_SATELLITES_INTERPRETERS_NAMING_H
#define HOMEFREE_SATELLITES_INTERPRETERS_NAMING_H

#include "satellites/interpreters/running.h"

struct hf_interpreters;

/* Where a thread is, as far as it is known. */
struct hf_naming_place {
    int64_t interpreter;   /* CPython's number; -1: the thread is attached to none */
    unsigned index, count; /* in its group of so many; a count of 0: of no group that is known */
    char what[HF_RUNNING_MAX]; /* what it runs; "": unknown */
};

/* Hands in what installs the handlers and what removes them. Called when the satellite begins. */
void hf_naming_offer(void (*install)(void), void (*remove)(void));

/* A group begins, whose crashes are to be named if `asked`, or if all are: in diagnostics mode.
 * Called before it has interpreters. The group ends this when it is freed. */
void hf_naming_begin(struct hf_interpreters *group, bool asked);

/* In a forked child: no group is named. */
void hf_naming_in_child(void);

/* The calling thread's place; false if no group has its crashes named. Async-signal-safe. */
bool hf_naming_here(struct hf_naming_place *out);

#endif
