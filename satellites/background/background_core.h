/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The core as the satellite knows it: its table (loader/satellites/background_tables.h).
 */
#ifndef HOMEFREE_SATELLITES_BACKGROUND_BACKGROUND_CORE_H
#define HOMEFREE_SATELLITES_BACKGROUND_BACKGROUND_CORE_H

#include "loader/satellites/background_tables.h"
#include "satellites/core_table.h"

HF_CORE_TABLE(struct hf_background_core)

#endif
