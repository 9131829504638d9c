/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Statistics of the heap. Owns nothing; any thread.
 */
#ifndef HOMEFREE_ALLOC_START_STATS_H
#define HOMEFREE_ALLOC_START_STATS_H

#include <homefree/homefree.h>

/* hf_stats() without forwarding, in the copy that is the heap. */
int hf_stats_here(struct hf_stats *out);
/* The same of hf_stats_of_others(). */
int hf_stats_of_others_here(hf_other_stats_visitor *visit, void *context);

#endif
