/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions that the heap's copy offers to other copies. Owns nothing; any thread, at any
 * stage.
 */
#ifndef HOMEFREE_ALLOC_START_API_H
#define HOMEFREE_ALLOC_START_API_H

#include "alloc/heap/instance.h"

/* Fills in the functions that other copies call in this one; excludes loader/'s. */
void hf_api_offer(struct hf_instance_functions *out);

#endif
