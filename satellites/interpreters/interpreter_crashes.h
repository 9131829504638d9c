/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The line about a crash in one of several interpreters: which one, what ran there, and in which
 * object. naming.h says when it is wanted.
 */
#ifndef HOMEFREE_SATELLITES_INTERPRETERS_INTERPRETER_CRASHES_H
#define HOMEFREE_SATELLITES_INTERPRETERS_INTERPRETER_CRASHES_H

/* Installs the handlers, and removes those that the kernel still has. Both are called by one thread
 * at a time. */
void hf_interpreter_crashes_install(void);
void hf_interpreter_crashes_remove(void);

#endif
