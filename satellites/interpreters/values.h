/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Python's objects as struct hf_value, and back. The functions are called by a thread that is
 * attached to the interpreter; they run Python code, so no lock may be held.
 */
#ifndef HOMEFREE_SATELLITES_INTERPRETERS_VALUES_H
#define HOMEFREE_SATELLITES_INTERPRETERS_VALUES_H

#include "satellites/interpreters/interpreter.h"

/* Whether a value and what it contains may be an argument. */
bool hf_value_is_argument(const struct hf_value *value);

/* Copies an argument with everything that it points to. Memory is not copied: its keeper gets one
 * more holder. Returns 0 or -ENOMEM. Free the copy with hf_value_free(). */
int hf_value_copy(const struct hf_value *value, struct hf_value *out);

/* A new object, or NULL with an exception set. */
struct hf_py_object *hf_value_to_object(const struct hf_cpython_interpreters *py,
                                        struct hf_interpreter *interpreter,
                                        const struct hf_value *value);

/* Fills in `out` from an object. Returns 0, -ENOMEM, or -EPROTO with an exception set; `out` is
 * HF_VALUE_NONE then. */
int hf_value_from_object(const struct hf_cpython_interpreters *py,
                         struct hf_interpreter *interpreter, struct hf_py_object *object,
                         struct hf_value *out);

/* Makes a value of the exception that is set, and clears it. `out` may be NULL. */
void hf_value_from_error(const struct hf_cpython_interpreters *py, struct hf_value *out);

/* hf_value_clear(). */
void hf_value_free(struct hf_value *value);

#endif
