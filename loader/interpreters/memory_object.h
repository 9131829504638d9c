/*
 * Objects of Python that show memory by the buffer protocol and hold its keeper. Their type is made
 * in each interpreter when it is first needed, without Python's headers. The functions are called
 * by a thread that is attached to the interpreter.
 */
#ifndef HOMEFREE_MEMORY_OBJECT_H
#define HOMEFREE_MEMORY_OBJECT_H

#include "loader/interpreters/interpreter.h"

/* A new memoryview of an object that shows the memory, or NULL with an exception set. */
struct hf_py_object *hf_memory_object_new(const struct hf_cpython_interpreters *py,
                                          struct hf_interpreter *interpreter,
                                          const struct hf_memory *memory);

/* Lets go of the type, before the interpreter ends. */
void hf_memory_object_forget(const struct hf_cpython_interpreters *py,
                             struct hf_interpreter *interpreter);

#endif
