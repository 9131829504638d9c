/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How long `owns` of a member of the registry takes. Owns nothing.
 */
#ifndef HOMEFREE_LOADER_COMMAND_TEST_REGISTRY_TIME_H
#define HOMEFREE_LOADER_COMMAND_TEST_REGISTRY_TIME_H

#include "include/allocator_registry.h"

/* Nanoseconds of a processor that a call takes, the least of three measurements, while so many
 * threads (up to 16) ask about these addresses. */
double hf_registry_time(const struct allocator_registry *member, const void *const address[4],
                        size_t threads);

#endif
