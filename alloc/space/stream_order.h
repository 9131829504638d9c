/*
 * The order of work between streams. Owns nothing, takes no lock. Any thread, not in a signal
 * handler.
 */
#ifndef HOMEFREE_STREAM_ORDER_H
#define HOMEFREE_STREAM_ORDER_H

/* hf_space_order() without forwarding. */
int hf_space_order_here(int device, void *before, void *after);

#endif
