/*
 * The side of a watch that answers.
 */
#ifndef HOMEFREE_WATCH_REPORT_H
#define HOMEFREE_WATCH_REPORT_H

#include "alloc/trace/watch_table.h"

/* What the public functions come down to, for a watch that this copy made. */
int hf_watch_report_here(struct hf_watch *watch, struct hf_watch_report *out,
                         hf_crossing_visitor *visit, void *context);
int hf_watch_at_here(struct hf_watch *watch, const void *block, struct hf_watch_block *out);

#endif
