/*
 * Routing: every loaded object's deallocation calls ask for the owner first.
 *
 * Entry points for the rest of loader/; users call hf_route() and hf_route_report()
 * (homefree/route.h).
 */
#ifndef HOMEFREE_ROUTE_H
#define HOMEFREE_ROUTE_H

#include <stdint.h>

/* Routes what was loaded since the last time, if routing is on. Errors are in the report. */
void hf_route_new_objects(void);

/* The first pass; later passes may come from any thread. Called once, by the library's constructor,
 * after everything that a pass uses has started. */
void hf_route_start(void);

/* What passes have cost so far. Under the loader's lock. */
struct hf_route_effort {
    uint64_t passes, nanoseconds;
};
struct hf_route_effort hf_route_effort(void);

#endif
