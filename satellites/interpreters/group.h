/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groups of interpreters: made, described and ended. The functions are those of
 * homefree/interpreters.h without forwarding.
 */
#ifndef HOMEFREE_SATELLITES_INTERPRETERS_GROUP_H
#define HOMEFREE_SATELLITES_INTERPRETERS_GROUP_H

#include "satellites/interpreters/interpreter.h"

int hf_group_start(struct hf_interpreters **out, const struct hf_interpreters_options *options,
                   char *why, size_t why_size);
int hf_group_stats(struct hf_interpreters *group, unsigned index, struct hf_interpreter_stats *out);
int hf_group_end(struct hf_interpreters *group, int timeout_ms);
int hf_group_finish_all(int timeout_ms);

#endif
