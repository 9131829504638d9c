/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions that wait to be run by a thread that is attached to a certain interpreter. Each
 * interpreter's queue is guarded by its lock.
 */
#ifndef HOMEFREE_SATELLITES_INTERPRETERS_POSTS_H
#define HOMEFREE_SATELLITES_INTERPRETERS_POSTS_H

#include "satellites/interpreters/interpreter.h"

/* Runs what is posted to the interpreter that the calling thread is attached to. */
void hf_posts_run(struct hf_interpreter *interpreter);

/* hf_interpreters_post(), hf_interpreters_hold() and hf_interpreters_unhold(). */
int hf_posts_add(int64_t id, void (*run)(void *argument), void *argument);
int hf_posts_hold(int64_t id);
void hf_posts_unhold(int64_t id);

#endif
