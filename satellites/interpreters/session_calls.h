/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Running source and calling functions in a session's interpreter. Owns nothing; the functions are
 * those of homefree/interpreters.h without forwarding.
 */
#ifndef HOMEFREE_SATELLITES_INTERPRETERS_SESSION_CALLS_H
#define HOMEFREE_SATELLITES_INTERPRETERS_SESSION_CALLS_H

#include "satellites/interpreters/interpreter.h"

int hf_calls_run(struct hf_session *session, const char *source, struct hf_value *error);
int hf_calls_call(struct hf_session *session, const char *function,
                  const struct hf_value *arguments, size_t count, struct hf_value *result);
int hf_calls_call_any(struct hf_interpreters *group, const char *function,
                      const struct hf_value *arguments, size_t count, struct hf_value *result);

/* For replicas.c, in a session that is attached: a function of a module by its name, a part of an
 * object by its name ("name.name"), and a call whose result becomes a value. The first two return a
 * new reference or NULL with an exception set. */
struct hf_py_object *hf_calls_find(const struct hf_session *session, const char *function);
struct hf_py_object *hf_calls_part(const struct hf_session *session, struct hf_py_object *whole,
                                   const char *names);
struct hf_py_object *hf_calls_invoke(const struct hf_session *session,
                                     struct hf_py_object *function,
                                     const struct hf_value *arguments, size_t count);
int hf_calls_result(const struct hf_session *session, struct hf_py_object *object,
                    struct hf_value *result);
bool hf_calls_may(const char *function, const struct hf_value *arguments, size_t count);

#endif
