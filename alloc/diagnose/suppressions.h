/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Suppressions: findings that the user, or homefree itself, knows and does not want to see.
 *
 * A line of a suppressions file is "RULE ALLOCATED FREED # why": a rule's name, and patterns for
 * the paths of the objects that allocated and that freed, where '*' stands for any text and matches
 * what is unknown. A line that begins with '#' is a comment.
 *
 * Any thread, at any stage, without a lock: the list is complete before the process starts threads.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_SUPPRESSIONS_H
#define HOMEFREE_ALLOC_DIAGNOSE_SUPPRESSIONS_H

#include "alloc/diagnose/event.h"

#include <stdbool.h>

/* Reads a file. Returns 0 or a negative errno; -EINVAL for a line that is none, whose number
 * `line` receives. Called once, while the process starts. */
int hf_suppressions_read(const char *path, unsigned *line);

/* Whether a suppression matches, which is counted in the report. */
bool hf_suppressed(const char *rule, const struct hf_event *event);

/* For the child of fork(2), after hf_report_in_child(). */
void hf_suppressions_in_child(void);

#endif
