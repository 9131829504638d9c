/*
 * Routing: every loaded object's deallocation calls ask for the owner first.
 *
 * Entry points for the rest of loader/; users call hf_route() and hf_route_report()
 * (homefree/route.h).
 */
#ifndef HOMEFREE_ROUTE_H
#define HOMEFREE_ROUTE_H

/* Routes what was loaded since the last time, if routing is on. Errors are in the report. */
void hf_route_new_objects(void);

#endif
