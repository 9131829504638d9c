/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Crashes inside a foreign allocator: the likely cause is a block of the heap that was passed to
 * that allocator's own free, which its object calls directly and nobody can see.
 *
 * Called by a signal handler. Allocates nothing, owns nothing.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_CRASH_H
#define HOMEFREE_ALLOC_DIAGNOSE_CRASH_H

#include <signal.h>

/* Records a finding if an object's own allocator crashed when it was to free a live block of the
 * heap, or a pointer into one (release_crash.h), or has ended the process with a line about a
 * pointer. info, context: the handler's. One thread at a time. */
void hf_crash_judge(const siginfo_t *info, const void *context);

#endif
