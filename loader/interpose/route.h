/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Routing: makes the deallocation calls of every loaded object check the owner first.
 *
 * Entry points for the rest of loader/; users call hf_route() and hf_route_report()
 * (homefree/route.h). Passes run under the loader's lock.
 */
#ifndef HOMEFREE_LOADER_INTERPOSE_ROUTE_H
#define HOMEFREE_LOADER_INTERPOSE_ROUTE_H

#include <stdint.h>

/* Routes objects loaded since the last pass, if routing is on. Errors appear in the report. Any
 * thread; takes the loader's lock if there is something to do. */
void hf_route_new_objects(void);

/* Returns what the slots of routed objects that held `original`, a dlsym(), hold now: its stub, or
 * `original` if routing is off or has not begun. Any thread. */
void *hf_route_lookup_for(void *original);

/* Runs the first pass; later passes may run on any thread. Called once, by the library's
 * constructor, after everything a pass uses has started. */
void hf_route_start(void);

/* The cost of all passes so far. Called under the loader's lock. */
struct hf_route_effort {
    uint64_t passes, nanoseconds;
};
struct hf_route_effort hf_route_effort(void);

#endif
