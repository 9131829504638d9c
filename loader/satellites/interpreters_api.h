/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What libhomefree's start and diagnostics mode call of interpreters_api.c.
 */
#ifndef HOMEFREE_LOADER_SATELLITES_INTERPRETERS_API_H
#define HOMEFREE_LOADER_SATELLITES_INTERPRETERS_API_H

#include "loader/satellites/interpreters_tables.h"

/* What other instances of libhomefree call of this one. */
extern const struct hf_interpreters_functions hf_interpreters_offered
    __attribute__((visibility("hidden")));

/* Called once, before there are interpreters. */
void hf_interpreters_observe(const struct hf_interpreters_observer *observer);

#endif
