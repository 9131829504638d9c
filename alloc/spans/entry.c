/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See entry.h. Owns the table's place.
 */
#include "alloc/spans/entry.h"

struct hf_entry *hf_entry_table;
const char hf_large_owner;
