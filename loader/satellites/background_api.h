/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What libhomefree's start calls of background_api.c, and what `homefree trim --pid` writes to.
 */
#ifndef HOMEFREE_LOADER_SATELLITES_BACKGROUND_API_H
#define HOMEFREE_LOADER_SATELLITES_BACKGROUND_API_H

#include "loader/satellites/background_tables.h"

/* What other instances of libhomefree call of this one. */
extern const struct hf_background_functions hf_background_offered
    __attribute__((visibility("hidden")));

/* Starts the thread if an option asks for it. Last of the start. */
void hf_background_as_asked(void);

#endif
