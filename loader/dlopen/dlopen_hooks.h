/*
 * What the stubs of dlopen(3), dlmopen(3), dlsym(3) and dlvsym(3) do beside calling their
 * originals: objects that come later are routed too, and dlsym() answers with routed functions.
 */
#ifndef HOMEFREE_DLOPEN_HOOKS_H
#define HOMEFREE_DLOPEN_HOOKS_H

#include "loader/interpose/stubs.h"

/* For hf_stubs_offer_hooks(). */
extern const struct hf_stub_hooks hf_dlopen_hooks __attribute__((visibility("hidden")));

#endif
