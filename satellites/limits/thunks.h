/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the slots of an object that has a limit lead to: a function each for a limit and a function
 * of homefree's, which calls that and counts what it returns. malloc() has a way of its own, with
 * no atomic operation.
 *
 * Owns the table of them, sealed, which the loader's lock guards; they read it without a lock. A
 * place keeps its function for ever, because a thread may be on the way there.
 */
#ifndef HOMEFREE_SATELLITES_LIMITS_THUNKS_H
#define HOMEFREE_SATELLITES_LIMITS_THUNKS_H

#include "satellites/limits/limit_policy.h"

/* NULL: there is no place left. */
void *hf_thunk_for(unsigned limit, enum hf_limit_kind kind, void *function);

/* The function that one stands for, and the limit; NULL if the address is none of them. */
void *hf_thunk_function(const void *address, unsigned *limit);

/* Those of a limit count nothing from now on. */
void hf_thunks_end(unsigned limit);

#endif
