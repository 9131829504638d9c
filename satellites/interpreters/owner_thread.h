/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The thread of an interpreter's that makes it, runs what is posted to it while nobody else does,
 * and ends it. owner_thread.c owns the lock under which interpreters are made and ended.
 */
#ifndef HOMEFREE_SATELLITES_INTERPRETERS_OWNER_THREAD_H
#define HOMEFREE_SATELLITES_INTERPRETERS_OWNER_THREAD_H

#include "satellites/interpreters/interpreter.h"

/* What an interpreter is made from; the caller keeps it until hf_owner_thread_make() returns. */
struct hf_owner_thread_order {
    const char *const *paths; /* ended by NULL, or NULL */
    const char *set_up;
    bool with_package, with_heap;
    uint64_t memory_limit;
    char *why;
    size_t why_size;
};

/* Makes an interpreter and its owner thread. The calling thread must not be attached. Returns as
 * hf_interpreters_start(). */
int hf_owner_thread_make(struct hf_interpreter *interpreter,
                         const struct hf_owner_thread_order *order);

/* Has the owner thread end its interpreter as soon as that can end. */
void hf_owner_thread_dismiss(struct hf_interpreter *interpreter);

/* The same, although others hold something of it: that stays as it is for good. */
void hf_owner_thread_forsake(struct hf_interpreter *interpreter);

/* Raises SystemExit in what runs in the interpreter, once; does not wait. */
void hf_owner_thread_interrupt(struct hf_interpreter *interpreter);

/* The interpreter did not end in time. If it has hung while it was made or ended, whoever waits to
 * make or end another one goes ahead. */
void hf_owner_thread_give_up(struct hf_interpreter *interpreter);

/* CPython is about to be finalized, and the interpreter does not end: CPython forgets it (stuck.h),
 * unless one is being made or ended meanwhile. */
void hf_owner_thread_lose(struct hf_interpreter *interpreter);

/* In a forked child. */
void hf_owner_thread_in_child(void);

#endif
