/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dlopen hooks: what the stubs of dlopen(3), dlmopen(3), dlsym(3) and dlvsym(3) do besides calling
 * their originals. They route objects loaded later and make dlsym() return stubs of routed
 * functions.
 *
 * Called by stubs only, on any thread; the state needs no lock.
 */
#ifndef HOMEFREE_LOADER_DLOPEN_DLOPEN_HOOKS_H
#define HOMEFREE_LOADER_DLOPEN_DLOPEN_HOOKS_H

#include "loader/interpose/stubs.h"

/* For hf_stubs_offer_hooks(). */
extern const struct hf_stub_hooks hf_dlopen_hooks __attribute__((visibility("hidden")));

#endif
