/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The core as the satellite knows it: its table (loader/satellites/limits_tables.h).
 */
#ifndef HOMEFREE_SATELLITES_LIMITS_LIMITS_CORE_H
#define HOMEFREE_SATELLITES_LIMITS_LIMITS_CORE_H

#include "loader/satellites/limits_tables.h"
#include "satellites/core_table.h"

HF_CORE_TABLE(struct hf_limits_core)

#endif
