/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The interpreters of this process, by CPython's number. registry.c owns the list, its lock and the
 * main interpreter's entry. Any thread; a forked child starts with an empty list.
 *
 * Locks: the registry's lock, and then an interpreter's.
 */
#ifndef HOMEFREE_SATELLITES_INTERPRETERS_REGISTRY_H
#define HOMEFREE_SATELLITES_INTERPRETERS_REGISTRY_H

#include "satellites/interpreters/interpreter.h"

/* Changes in every forked child: whatever was made before belongs to the parent. */
unsigned hf_registry_generation(void);

/* The entry of the main interpreter, which has no group. */
struct hf_interpreter *hf_registry_main(void);

/* Lists an interpreter whose number is known. */
void hf_registry_add(struct hf_interpreter *interpreter);

/* Takes an interpreter off the list if it can end: nobody has a session of it, holds anything of
 * it, has posted anything to it, or is interrupting it, and CPython knows it. Sets `finishing`
 * then. */
bool hf_registry_remove(struct hf_interpreter *interpreter);

/* Lists a guest (guests.h), unless its interpreter is listed already. */
bool hf_registry_add_once(struct hf_interpreter *guest);

/* Takes a guest off the list, if it is there; nobody is in it any more then. */
void hf_registry_drop(struct hf_interpreter *guest);

/* Finds an interpreter and locks it; NULL if there is none. Unlock its lock. */
struct hf_interpreter *hf_registry_lock(int64_t id);

/* The place of an interpreter in its group; false if there is none, or if the list is in use.
 * Async-signal-safe. */
bool hf_registry_try_find(int64_t id, unsigned *index, unsigned *count);

/* Writes the numbers and places of the main interpreter and of all that are listed into the first
 * `most` rows. Returns how many there are. */
size_t hf_registry_list(struct hf_interpreter_memory *rows, size_t most);

/* Calls a function for every listed interpreter but guests, under the registry's lock. */
void hf_registry_each(void (*visit)(struct hf_interpreter *interpreter));

/* Waits until all interpreters that were ever made have ended. Returns whether they have; a
 * deadline of NULL is none. */
bool hf_registry_wait(const struct timespec *deadline);

/* Counts interpreters from one state to another; 0 is that of one that does not exist. */
void hf_registry_count(enum hf_interpreter_state from, enum hf_interpreter_state to);
void hf_registry_totals(struct hf_interpreters_counts *out);

/* Registers the fork handler. `in_child_too` runs in the child as well. */
void hf_registry_start(void (*in_child_too)(void));

#endif
