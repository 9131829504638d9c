/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether an object's symbol table may be made writable: no page of it may hold code or variables.
 *
 * Any thread; keeps no state. Reads the object's tables, so under the loader's lock.
 */
#ifndef HOMEFREE_LOADER_INTERPOSE_TABLE_PAGES_H
#define HOMEFREE_LOADER_INTERPOSE_TABLE_PAGES_H

#include "alloc/base/dynlink.h"

#include <stdbool.h>
#include <stdint.h>

/* Returns whether the pages from that of `lowest` to that of `highest` hold read-only data alone.
 * They do in a read-only segment. In a segment with code, as GNU's linker makes it on aarch64, they
 * do if nothing but tables that the dynamic linker reads, whose sizes are known, fills them. */
bool hf_table_is_apart(const struct hf_object *object, uintptr_t lowest, uintptr_t highest);

#endif
