/*
 * Statistics of the heap.
 */
#ifndef HOMEFREE_STATS_H
#define HOMEFREE_STATS_H

#include <homefree/homefree.h>

/* hf_stats() in the copy that is the heap. */
int hf_stats_here(struct hf_stats *out);

#endif
