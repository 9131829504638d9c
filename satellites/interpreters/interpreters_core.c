/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See interpreters_core.h. Owns nothing.
 */
#include "satellites/interpreters/interpreters_core.h"

#include <homefree/homefree.h>

#define HF_CORE_GIVES HF_CALLS_CORE
#define HF_CORE_DOES  HF_CALLS_CORE_VOID
#include "loader/satellites/interpreters_tables.def"
