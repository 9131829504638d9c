/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `homefree test --registry FILE`: whether the allocators in a shared object keep the duties of the
 * registry's members (docs/registry.md).
 */
#ifndef HOMEFREE_LOADER_COMMAND_TEST_REGISTRY_TEST_H
#define HOMEFREE_LOADER_COMMAND_TEST_REGISTRY_TEST_H

#include <stdbool.h>

/* Loads the file into this process, and prints what each check finds. Returns an exit status. */
int hf_registry_test(const char *file, bool json);

#endif
