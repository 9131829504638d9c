/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Limits: which there are, of what objects. What homefree/limit.h says, in the heap's instance.
 *
 * The dynamic loader's lock guards all that limits.c owns. Whoever only reads a limit takes none:
 * it may end meanwhile, and what is told then is of no limit.
 */
#ifndef HOMEFREE_SATELLITES_LIMITS_LIMITS_H
#define HOMEFREE_SATELLITES_LIMITS_LIMITS_H

#include "loader/satellites/limits_tables.h"

int hf_limits_begin(struct hf_limit **out, const char *path, uint64_t bytes,
                    const struct hf_limit_options *options);
int hf_limits_add(struct hf_limit *limit, const char *path);
int hf_limits_set(struct hf_limit *limit, uint64_t bytes);
int hf_limits_read(const struct hf_limit *limit, struct hf_limit_state *out);
int hf_limits_number(const struct hf_limit *limit);
int hf_limits_each(hf_limit_visitor *visit, void *context);
int hf_limits_end(struct hf_limit *limit);

#endif
