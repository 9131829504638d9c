/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing. No lock is held while Python code runs.
 */
#include "satellites/interpreters/session_calls.h"

#include "satellites/interpreters/sessions.h"
#include "satellites/interpreters/values.h"

#include <errno.h>
#include <homefree/alloc.h>
#include <string.h>

#define FILE_INPUT 257 /* Py_file_input */
#define NAME_MAX_  512
#define SOURCE     "<session>" /* its file name, in tracebacks */

static const struct hf_cpython_interpreters *python_of(const struct hf_session *session)
{
    return session->interpreter->group->py;
}

static void release(const struct hf_cpython_interpreters *py, struct hf_py_object *object)
{
    if (object != NULL)
        py->cpython->release(object);
}

/* ---- finding ---- */

bool hf_calls_may(const char *function, const struct hf_value *arguments, size_t count)
{
    const char *colon = strchr(function, ':');
    if (colon == NULL || colon == function || colon[1] == '\0' ||
        (size_t)(colon - function) >= NAME_MAX_ || (arguments == NULL && count > 0))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!hf_value_is_argument(&arguments[i]))
            return false;
    return true;
}

struct hf_py_object *hf_calls_part(const struct hf_session *session, struct hf_py_object *whole,
                                   const char *names)
{
    const struct hf_cpython_interpreters *py = python_of(session);
    char name[NAME_MAX_];
    struct hf_py_object *part = whole;
    py->take(part);
    while (part != NULL && names != NULL && *names != '\0') {
        const size_t length = strcspn(names, ".");
        const size_t copied = length < sizeof name ? length : sizeof name - 1;
        memcpy(name, names, copied);
        name[copied] = '\0';
        struct hf_py_object *next = py->cpython->attribute(part, name);
        release(py, part);
        part = next;
        names += length + (names[length] == '.');
    }
    return part;
}

struct hf_py_object *hf_calls_find(const struct hf_session *session, const char *function)
{
    const struct hf_cpython_interpreters *py = python_of(session);
    const char *colon = strchr(function, ':');
    char module_name[NAME_MAX_];
    memcpy(module_name, function, (size_t)(colon - function));
    module_name[colon - function] = '\0';
    struct hf_py_object *name = py->cpython->string(module_name);
    struct hf_py_object *module = name != NULL ? py->cpython->imported(name) : NULL;
    release(py, name);
    if (module == NULL && py->error_occurred() == NULL)
        module = py->import(module_name);
    struct hf_py_object *found = module != NULL ? hf_calls_part(session, module, colon + 1) : NULL;
    release(py, module);
    return found;
}

/* ---- calling ---- */

struct hf_py_object *hf_calls_invoke(const struct hf_session *session,
                                     struct hf_py_object *function,
                                     const struct hf_value *arguments, size_t count)
{
    const struct hf_cpython_interpreters *py = python_of(session);
    struct hf_py_object *tuple = py->tuple_new((ssize_t)count);
    for (size_t i = 0; tuple != NULL && i < count; i++) {
        struct hf_py_object *item = hf_value_to_object(py, session->interpreter, &arguments[i]);
        if (item == NULL || py->tuple_set(tuple, (ssize_t)i, item) != 0) {
            release(py, tuple);
            tuple = NULL;
        }
    }
    struct hf_py_object *result = tuple != NULL ? py->call(function, tuple) : NULL;
    release(py, tuple);
    return result;
}

int hf_calls_result(const struct hf_session *session, struct hf_py_object *object,
                    struct hf_value *result)
{
    const struct hf_cpython_interpreters *py = python_of(session);
    int error = object != NULL ? 0 : -EPROTO;
    if (result != NULL)
        *result = (struct hf_value){.kind = HF_VALUE_NONE};
    if (error == 0 && result != NULL)
        error = hf_value_from_object(py, session->interpreter, object, result);
    if (error == -EPROTO)
        hf_value_from_error(py, result);
    else if (error != 0)
        py->cpython->clear_error();
    release(py, object);
    return error;
}

static int attach(struct hf_session *session, struct hf_value *result)
{
    if (result != NULL)
        *result = (struct hf_value){.kind = HF_VALUE_NONE};
    return hf_sessions_attach(session);
}

int hf_calls_run(struct hf_session *session, const char *source, struct hf_value *error_out)
{
    const struct hf_cpython_interpreters *py = python_of(session);
    struct hf_running_before before;
    int error = attach(session, error_out);
    if (error != 0)
        return error;
    hf_running_begin(&session->runs, &before, SOURCE);
    struct hf_py_object *module = py->add_module("__main__");
    struct hf_py_object *names = module != NULL ? py->module_dict(module) : NULL;
    struct hf_py_object *code = names != NULL ? py->compile(source, SOURCE, FILE_INPUT) : NULL;
    struct hf_py_object *result = code != NULL ? py->evaluate(code, names, names) : NULL;
    if (result == NULL) {
        hf_value_from_error(py, error_out);
        error = -EPROTO;
    }
    release(py, result);
    release(py, code);
    hf_running_end(&session->runs, &before);
    (void)hf_sessions_detach(session);
    return error;
}

static int call_attached(struct hf_session *session, const char *function,
                         const struct hf_value *arguments, size_t count, struct hf_value *result)
{
    struct hf_running_before before;
    hf_running_begin(&session->runs, &before, function);
    struct hf_py_object *found = hf_calls_find(session, function);
    struct hf_py_object *returned =
        found != NULL ? hf_calls_invoke(session, found, arguments, count) : NULL;
    const int error = hf_calls_result(session, returned, result);
    release(python_of(session), found);
    hf_running_end(&session->runs, &before);
    return error;
}

int hf_calls_call(struct hf_session *session, const char *function,
                  const struct hf_value *arguments, size_t count, struct hf_value *result)
{
    if (!hf_calls_may(function, arguments, count))
        return -EINVAL;
    int error = attach(session, result);
    if (error != 0)
        return error;
    error = call_attached(session, function, arguments, count, result);
    (void)hf_sessions_detach(session);
    return error;
}

int hf_calls_call_any(struct hf_interpreters *group, const char *function,
                      const struct hf_value *arguments, size_t count, struct hf_value *result)
{
    struct hf_session *session;
    if (!hf_calls_may(function, arguments, count))
        return -EINVAL;
    int error = hf_sessions_begin(&session, group, -1, 0);
    if (error != 0)
        return error;
    error = attach(session, result);
    if (error == 0)
        error = call_attached(session, function, arguments, count, result);
    hf_sessions_end(session); /* which detaches */
    return error;
}
