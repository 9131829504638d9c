/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Profiles of the heap, for libhomefree's start. Users call homefree/profile.h.
 */
#ifndef HOMEFREE_LOADER_SATELLITES_PROFILE_API_H
#define HOMEFREE_LOADER_SATELLITES_PROFILE_API_H

#include "alloc/base/live_tables.h"
#include "loader/satellites/profile_tables.h"

/* Where a process that looks from outside finds the profile. */
extern const struct hf_live_profile hf_profile_live;

/* What other instances of libhomefree call of this one. */
extern const struct hf_profile_functions hf_profile_offered __attribute__((visibility("hidden")));

/* Begins what the option `profile` says. After hf_seal_start(), because it opens a satellite. */
void hf_profile_start(void);

#endif
