/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages: what crosses from one interpreter to another. A message is a pickle and the memory that
 * the pickle refers to, which is not copied: each piece has a deleter, whose last holder, in
 * whichever interpreter, lets the memory go. A message itself is plain memory and belongs to
 * whoever has it; no interpreter need be alive.
 */
#ifndef HOMEFREE_PYTHON_NATIVE_CROSSING_H
#define HOMEFREE_PYTHON_NATIVE_CROSSING_H

#include "python/native/module_state.h"

struct homefree_message;

/* A message of a bytes object and a sequence of objects with a buffer, which are made to outlive
 * their interpreter as far as possible. NULL with an exception set. */
struct homefree_message *homefree_message_new(PyObject *module, PyObject *pickle,
                                              PyObject *buffers);

/* Another message of the same memory; NULL if there is no memory. Any thread. */
struct homefree_message *homefree_message_copy(const struct homefree_message *message);

/* A message whose pickle is a text; NULL if there is no memory. Any thread. */
struct homefree_message *homefree_message_of_text(const char *text);

/* A tuple (bytes-like pickle, tuple of Shared objects) in the caller's interpreter. The message is
 * used up, also on error. NULL with an exception set. */
PyObject *homefree_message_open(PyObject *module, struct homefree_message *message);

/* Drops a message that nobody opened. Any thread. */
void homefree_message_drop(struct homefree_message *message);

/* A function of the CPython that runs, which need not be one of the stable ABI; NULL if it has none
 * of that name (frames.c). */
void *homefree_function_of_cpython(const char *name);

/* The name of a capsule with a struct hf_interpreters (interpreters_module.c). */
extern const char homefree_group_name[];

#endif
