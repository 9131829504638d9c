/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The checks of `homefree test --registry`: each calls a member of the registry as readers may, and
 * compares what it does with what docs/registry.md demands.
 */
#ifndef HOMEFREE_LOADER_COMMAND_TEST_REGISTRY_CHECKS_H
#define HOMEFREE_LOADER_COMMAND_TEST_REGISTRY_CHECKS_H

#include "include/allocator_registry.h"

#include <stdbool.h>

/*
 * A check runs in a process of its own, which it may damage and which has a time limit. It returns
 * if the member keeps its duties; otherwise it calls hf_registry_refuse() of registry_said.h.
 */
struct hf_registry_check {
    const char *name;
    const char *rule; /* what is broken if the process dies or does not end */
    void (*run)(const struct allocator_registry *member);
    size_t needs; /* the member's function, without which there is nothing to check */
};
extern const struct hf_registry_check hf_registry_checks[];
extern const unsigned hf_registry_checks_count;

/* Whether the member has what the check needs, and whether this thread may allocate there. */
bool hf_registry_can_check(const struct hf_registry_check *check,
                           const struct allocator_registry *member);
bool hf_registry_can_allocate(const struct allocator_registry *member);

#endif
