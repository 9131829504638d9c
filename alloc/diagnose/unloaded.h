/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Foreign allocators whose object has been unloaded: whose blocks are still there, although the
 * code that could free them is gone.
 *
 * Such an allocator is one that homefree knows by its pages alone: objects whose functions may be
 * called stay loaded. What its pages were is kept in the table of foreign pages, under a number of
 * our own, until somebody unmaps them.
 *
 * Any thread, at any stage, without a lock of its own.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_UNLOADED_H
#define HOMEFREE_ALLOC_DIAGNOSE_UNLOADED_H

#include "alloc/owner/foreign.h"

#include <stdbool.h>

/* Call before dlclose(3), and after it. */
void hf_unloaded_before(void);
void hf_unloaded_after(void);

/* Whether this is such an allocator. */
bool hf_unloaded_is(const struct hf_foreign_allocator *allocator);

#endif
