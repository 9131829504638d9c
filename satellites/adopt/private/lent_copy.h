/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private copies that interpreters use one after the other: a copy is never unloaded, because
 * nobody knows who has an address in it, but it is made as it was before any of its code ran.
 * Users call hf_private_lend() and hf_private_reuse() (homefree/private.h), on any thread.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_PRIVATE_LENT_COPY_H
#define HOMEFREE_SATELLITES_ADOPT_PRIVATE_LENT_COPY_H

#include "satellites/adopt/adopt_core.h"

#include <stdbool.h>
#include <stdint.h>

/* hf_private_lend() and hf_private_reuse(). */
int hf_lent_add(const char *path, void *handle, int64_t interpreter);
void *hf_lent_reuse(const char *path, int64_t interpreter);

/* An interpreter has ended: its copies are made new. No thread is in it any more. Returns whether
 * something of it, which is told, may use its memory nevertheless. */
bool hf_lent_ended(int64_t interpreter, hf_lent_leaver *tell, void *context);

/* The interpreter uses a loaded object that is not its alone, which stays loaded. Returns 0 or a
 * negative errno. */
int hf_lent_common(int64_t interpreter, void *handle);

/* The calling thread, which may have been in other interpreters, begins to work in this one: what
 * it has in the copies' thread-local storage is made new. */
void hf_lent_entered(int64_t interpreter);

#endif
