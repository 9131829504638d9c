/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Limits, for libhomefree's start. Users call homefree/limit.h.
 */
#ifndef HOMEFREE_LOADER_SATELLITES_LIMITS_API_H
#define HOMEFREE_LOADER_SATELLITES_LIMITS_API_H

#include "loader/satellites/limits_tables.h"

/* The limit's number (front_end.h), in the heap's instance; -EINVAL if it has ended. */
int hf_limit_number(const struct hf_limit *limit) __attribute__((visibility("hidden")));

/* What other instances of libhomefree call of this one. */
extern const struct hf_limits_functions hf_limits_offered __attribute__((visibility("hidden")));

#endif
