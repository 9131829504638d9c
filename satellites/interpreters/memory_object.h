/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects of Python that show memory by the buffer protocol and hold its keeper. Their type is made
 * in each interpreter when it is first needed, without Python's headers. The functions are called
 * by a thread that is attached to the interpreter.
 */
#ifndef HOMEFREE_SATELLITES_INTERPRETERS_MEMORY_OBJECT_H
#define HOMEFREE_SATELLITES_INTERPRETERS_MEMORY_OBJECT_H

#include "satellites/interpreters/interpreter.h"

/* A new memoryview of an object that shows the memory, or NULL with an exception set. */
struct hf_py_object *hf_memory_object_new(const struct hf_cpython_interpreters *py,
                                          struct hf_interpreter *interpreter,
                                          const struct hf_memory *memory);

/* The keeper of an object that hf_memory_object_new() has made, with one more holder; NULL if the
 * object, whose type is given, is another one or has no keeper. */
struct hf_release *hf_memory_object_keeper(struct hf_interpreter *interpreter,
                                           struct hf_py_object *object,
                                           const struct hf_py_object *type);

/* Lets go of the type, before the interpreter ends. */
void hf_memory_object_forget(const struct hf_cpython_interpreters *py,
                             struct hf_interpreter *interpreter);

#endif
