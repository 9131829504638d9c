/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `homefree test --registry FILE`: whether the allocators in a shared object keep the duties of the
 * registry's members (docs/registry.md).
 */
#ifndef HOMEFREE_LOADER_COMMAND_TEST_REGISTRY_TEST_H
#define HOMEFREE_LOADER_COMMAND_TEST_REGISTRY_TEST_H

#include <stdbool.h>

struct hf_registry_request {
    const char *file;
    const char *only; /* the name of a check, or NULL: all of them */
    unsigned seconds; /* how long loading the file, or a check, may take */
    bool json;
};

/* Loads the file in another process, and prints what each check finds. Returns an exit status. May
 * not be called by a process with children or timers. */
int hf_registry_test(const struct hf_registry_request *request);

#endif
