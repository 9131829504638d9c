/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What libhomefree's start and diagnostics mode call of interpreters_api.c.
 */
#ifndef HOMEFREE_LOADER_SATELLITES_INTERPRETERS_API_H
#define HOMEFREE_LOADER_SATELLITES_INTERPRETERS_API_H

#include "loader/satellites/interpreters_tables.h"

/* Offers the functions to other instances. Before this one starts. */
void hf_interpreters_offer(void);

/* Called once, before there are interpreters. */
void hf_interpreters_observe(const struct hf_interpreters_observer *observer);

#endif
