/*
 * The core's functions, which this satellite calls by their names in the core's headers.
 *
 * interpreters_core.c owns the pointer to the core's table.
 */
#ifndef HOMEFREE_INTERPRETERS_CORE_H
#define HOMEFREE_INTERPRETERS_CORE_H

#include "loader/satellites/interpreters_tables.h"

/* Before anything else of the satellite is called. */
void hf_core_begin(const struct hf_interpreters_core *core);

const struct hf_interpreters_observer *hf_core_observer(void);

#endif
