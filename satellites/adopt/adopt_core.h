/*
 * The core's functions, which this satellite calls by their names in the core's headers.
 *
 * adopt_core.c owns the pointer to the core's table.
 */
#ifndef HOMEFREE_ADOPT_CORE_H
#define HOMEFREE_ADOPT_CORE_H

#include "loader/satellites/adopt_tables.h"

/* Before anything else of the satellite is called. */
void hf_core_begin(const struct hf_adopt_core *core);

/* The core's table, which lies in libhomefree. */
const struct hf_adopt_core *hf_core(void);

#endif
