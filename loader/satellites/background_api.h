/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What libhomefree's start calls of background_api.c, and what `homefree trim --pid` writes to.
 */
#ifndef HOMEFREE_LOADER_SATELLITES_BACKGROUND_API_H
#define HOMEFREE_LOADER_SATELLITES_BACKGROUND_API_H

#include "loader/satellites/background_tables.h"

/* Offers the functions to other instances. Before this one starts. */
void hf_background_offer(void);

/* Starts the thread if an option asks for it. Last of the start. */
void hf_background_as_asked(void);

#endif
