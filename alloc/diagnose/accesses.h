/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Accesses to guarded samples (guarded_samples.h) that fault: an access to a freed block, or to
 * what lies around a block, becomes a finding at the very instruction, and then the program goes
 * on.
 *
 * Called by the handler of SIGSEGV, on any stack that has room for it. Owns nothing but a guard
 * against faults that repeat.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_ACCESSES_H
#define HOMEFREE_ALLOC_DIAGNOSE_ACCESSES_H

#include <signal.h>
#include <stdbool.h>

/* Whether the access may be repeated: it touched a guarded sample, and is recorded. False: the
 * fault is none of ours. Does not return in strict mode. context: a ucontext_t. */
bool hf_access_fault(const siginfo_t *info, const void *context);

#endif
