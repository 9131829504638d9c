/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The reading side of a watch. Owns nothing; any thread, without the lock of all watches.
 */
#ifndef HOMEFREE_ALLOC_TRACE_WATCH_REPORT_H
#define HOMEFREE_ALLOC_TRACE_WATCH_REPORT_H

#include "alloc/trace/watch_table.h"

/* hf_watch_report() and hf_watch_at() without forwarding, for a watch that this copy created. */
int hf_watch_report_here(struct hf_watch *watch, struct hf_watch_report *out,
                         hf_crossing_visitor *visit, void *context);
int hf_watch_at_here(struct hf_watch *watch, const void *block, struct hf_watch_block *out);
int hf_watch_left_here(struct hf_watch *watch, hf_left_visitor *visit, void *context);

/* Visits the blocks that the thread that began the watch has allocated since, and nobody freed. The
 * visitor is called without the lock. -EINVAL for a watch of another copy. */
typedef void hf_watch_block_visitor(const void *block, void *context);
int hf_watch_each_left(struct hf_watch *watch, hf_watch_block_visitor *visit, void *context);

#endif
