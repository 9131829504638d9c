/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is done inside of an interpreter by Python code: its paths, what it imports first, and how
 * it stops its own threads. Owns nothing; the calling thread is attached and stays so.
 */
#ifndef HOMEFREE_SATELLITES_INTERPRETERS_INSIDE_H
#define HOMEFREE_SATELLITES_INTERPRETERS_INSIDE_H

#include "satellites/interpreters/interpreter.h"

/* sys.path of the interpreter that the calling thread is attached to, as strings of the file
 * system: a block with the pointers in front, ended by NULL. Free it with hf_free(). NULL: no
 * memory. */
char **hf_inside_paths(const struct hf_cpython_interpreters *py);

/* Makes a new interpreter ready. `paths` is ended by NULL, or NULL: sys.path is left alone. Returns
 * 0 or -EPROTO with the exception in `why`. */
int hf_inside_set_up(const struct hf_cpython_interpreters *py, const char *const *paths,
                     bool with_package, const char *set_up, char *why, size_t size);

/* Waits for the interpreter's Python threads, and runs what atexit knows. */
void hf_inside_finish(const struct hf_cpython_interpreters *py);

/* The class SystemExit: a new reference, or NULL without an exception set. */
struct hf_py_object *hf_inside_system_exit(const struct hf_cpython_interpreters *py);

/* Raises an exception in these threads and, if `all` is true, in every other that `threading` of
 * this interpreter knows, but for `except` and the calling one. */
void hf_inside_interrupt(const struct hf_cpython_interpreters *py, struct hf_py_object *exception,
                         const unsigned long *threads, size_t count, bool all,
                         unsigned long except);

#endif
