/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of values (struct hf_memory): descriptions of it, and what keeps the memory of a result.
 * The functions that take an object are called by a thread that is attached to the interpreter.
 */
#ifndef HOMEFREE_SATELLITES_INTERPRETERS_VALUE_MEMORY_H
#define HOMEFREE_SATELLITES_INTERPRETERS_VALUE_MEMORY_H

#include "satellites/interpreters/interpreter.h"

/* Copies a description into one block of the heap, without taking its keeper. NULL: no memory. */
struct hf_memory *hf_memory_describe(const struct hf_memory *memory);

/* Makes HF_VALUE_MEMORY of an object with a buffer. Returns 0 or a negative errno: -EPROTO with an
 * exception set, -ENOMSG if the buffer consists of pointers to others. */
int hf_memory_from_object(const struct hf_cpython_interpreters *py,
                          struct hf_interpreter *interpreter, struct hf_py_object *object,
                          struct hf_value *out);

/* Lets go of the types that were needed, before the interpreter ends. */
void hf_memory_forget(const struct hf_cpython_interpreters *py, struct hf_interpreter *interpreter);

#endif
