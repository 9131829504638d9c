/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The core's functions, which this satellite calls through the core's table. Owns nothing.
 */
#ifndef HOMEFREE_SATELLITES_PROFILE_PROFILE_CORE_H
#define HOMEFREE_SATELLITES_PROFILE_PROFILE_CORE_H

#include "loader/satellites/profile_tables.h"
#include "satellites/core_table.h"

HF_CORE_TABLE(struct hf_profile_core)

#endif
