/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The core's functions, which this satellite calls through the core's table. Owns nothing.
 */
#ifndef HOMEFREE_SATELLITES_PROFILE_PROFILE_CORE_H
#define HOMEFREE_SATELLITES_PROFILE_PROFILE_CORE_H

#include "loader/satellites/profile_tables.h"
#include "satellites/core_table.h"

/* The core's table, which lies in libhomefree. */
static inline const struct hf_profile_core *hf_core(void)
{
    return hf_core_table.it;
}

#endif
