/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The core's functions, which this satellite calls by their names in the core's headers.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_ADOPT_CORE_H
#define HOMEFREE_SATELLITES_ADOPT_ADOPT_CORE_H

#include "loader/satellites/adopt_tables.h"
#include "satellites/core_table.h"

HF_CORE_TABLE(struct hf_adopt_core)

#endif
