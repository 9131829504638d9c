/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of the extension for groups of interpreters (homefree/interpreters.h). Owns nothing: a
 * group belongs to its capsule, which ends it only if nobody has done so before. Functions are
 * called by attached threads and detach while interpreters start and end.
 */
#include "python/native/crossing.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <homefree/interpreters.h>
#include <stdbool.h>

PyDoc_STRVAR(engine_doc, "interpreters_engine()\n--\n\n"
                         "hf_interpreters_engine(): (number, reason); the number is -errno if this "
                         "Python cannot have interpreters.");
PyDoc_STRVAR(start_doc, "interpreters_start(count, name_crashes, memory_limit)\n--\n\n"
                        "hf_interpreters_start(): a capsule.");
PyDoc_STRVAR(numbers_doc, "interpreters_numbers(group)\n--\n\nThe interpreters' numbers: a list.");
PyDoc_STRVAR(memory_doc,
             "interpreters_memory()\n--\n\nhf_interpreters_memory(): a list of (number, index, "
             "is in a group, live, resident, objects, arenas, blocks, counted or None, limit or "
             "None, used, peak, refused).");
PyDoc_STRVAR(limit_doc, "interpreter_limit(bytes)\n--\n\nhf_interpreters_limit() of this "
                        "interpreter: 0 or -errno.");
PyDoc_STRVAR(object_doc, "interpreter_limit_object(handle)\n--\n\n"
                         "hf_interpreters_limit_object() of this interpreter: 0 or -errno.");
PyDoc_STRVAR(end_doc, "interpreters_end(group, timeout)\n--\n\n"
                      "hf_interpreters_end(): 0 or -errno; milliseconds.");
PyDoc_STRVAR(finish_doc, "interpreters_finish(timeout)\n--\n\n"
                         "hf_interpreters_finish(): 0 or -errno; milliseconds.");
PyDoc_STRVAR(known_doc, "interpreter_make_known()\n--\n\nLets others send the blocks of this "
                        "interpreter home, also if homefree has not made it.");
PyDoc_STRVAR(current_doc, "interpreter_current()\n--\n\nhf_interpreter_current().");

PyDoc_STRVAR(keep_doc, "interpreter_keep(path)\n--\n\nhf_interpreters_keep() of this interpreter, "
                       "for the loaded object of a file, or with None.");
PyDoc_STRVAR(leaks_doc, "interpreters_leaks()\n--\n\nhf_interpreters_leaks(): a list of (object, "
                        "why, interpreters, bytes).");

const char homefree_group_name[] = "homefree.interpreters";

static PyObject *interpreters_engine(PyObject *module, PyObject *unused)
{
    char why[512] = "";
    (void)module;
    (void)unused;
    int engine = hf_interpreters_engine(why, sizeof why);
    return Py_BuildValue("is", engine, why);
}

static PyObject *interpreters_start(PyObject *module, PyObject *arguments)
{
    unsigned count;
    int name_crashes;
    unsigned long long memory_limit;
    struct hf_interpreters *group = NULL;
    char why[512] = "";
    (void)module;
    if (!PyArg_ParseTuple(arguments, "IpK:interpreters_start", &count, &name_crashes,
                          &memory_limit))
        return NULL;
    struct hf_interpreters_options options = {.size = sizeof options,
                                              .count = count,
                                              .cpython = (void (*)(void))PyUnicode_FromString,
                                              .name_crashes = name_crashes != 0,
                                              .memory_limit = memory_limit};
    int error;
    Py_BEGIN_ALLOW_THREADS
    error = hf_interpreters_start(&group, &options, why, sizeof why);
    Py_END_ALLOW_THREADS
    if (error == 0) {
        PyObject *capsule = PyCapsule_New(group, homefree_group_name, NULL);
        if (capsule == NULL)
            (void)hf_interpreters_end(group, 0);
        return capsule;
    }
    return homefree_os_error(error, why[0] != '\0' ? why : NULL, NULL);
}

static PyObject *interpreters_end(PyObject *module, PyObject *arguments)
{
    PyObject *capsule;
    int timeout, error;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "Oi:interpreters_end", &capsule, &timeout))
        return NULL;
    struct hf_interpreters *group;
    HOMEFREE_BEGIN_ALONE(capsule);
    group = PyCapsule_GetPointer(capsule, homefree_group_name);
    if (group != NULL && PyCapsule_SetName(capsule, "homefree.interpreters, ended") != 0)
        group = NULL;
    HOMEFREE_END_ALONE();
    if (group == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    error = hf_interpreters_end(group, timeout);
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(error);
}

static PyObject *interpreters_numbers(PyObject *module, PyObject *capsule)
{
    (void)module;
    struct hf_interpreters *group = PyCapsule_GetPointer(capsule, homefree_group_name);
    PyObject *list = group != NULL ? PyList_New(0) : NULL;
    for (unsigned i = 0; list != NULL && i < hf_interpreters_count(group); i++) {
        struct hf_interpreter_stats stats = {.size = sizeof stats, .id = -1};
        (void)hf_interpreters_stats(group, i, &stats);
        if (homefree_append(list, PyLong_FromLongLong(stats.id)) != 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *known(bool is_known, uint64_t bytes)
{
    if (is_known)
        return PyLong_FromUnsignedLongLong(bytes);
    Py_RETURN_NONE;
}

static int add_memory(void *context, const struct hf_interpreter_memory *memory)
{
    PyObject *row = Py_BuildValue(
        "(LINKKKKKNNKKK)", (long long)memory->id, memory->index,
        PyBool_FromLong(memory->count != 0), (unsigned long long)memory->live,
        (unsigned long long)memory->resident, (unsigned long long)memory->objects,
        (unsigned long long)memory->arenas, (unsigned long long)memory->blocks,
        known(memory->is_counted, memory->counted),
        known(memory->limit != HF_LIMIT_NONE, memory->limit), (unsigned long long)memory->used,
        (unsigned long long)memory->peak, (unsigned long long)memory->refused);
    return homefree_append(context, row);
}

/* The list, or NULL with an exception. error: 0 or a negative errno. */
static PyObject *listed(PyObject *list, int error)
{
    if (error == 0)
        return list;
    Py_CLEAR(list);
    return PyErr_Occurred() != NULL ? NULL : homefree_failed(error, NULL);
}

static PyObject *interpreters_memory(PyObject *module, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    (void)module;
    (void)unused;
    return listed(list, list != NULL ? hf_interpreters_memory(add_memory, list) : 0);
}

static PyObject *interpreter_limit(PyObject *module, PyObject *bytes)
{
    (void)module;
    const unsigned long long most = PyLong_AsUnsignedLongLong(bytes);
    if (PyErr_Occurred() != NULL)
        return NULL;
    return PyLong_FromLong(hf_interpreters_limit(hf_interpreter_current(), most));
}

static PyObject *interpreter_limit_object(PyObject *module, PyObject *number)
{
    (void)module;
    void *handle = PyLong_AsVoidPtr(number);
    if (PyErr_Occurred() != NULL)
        return NULL;
    return PyLong_FromLong(hf_interpreters_limit_object(hf_interpreter_current(), handle));
}

static PyObject *interpreter_current(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromLongLong(hf_interpreter_current());
}

static PyObject *interpreter_keep(PyObject *module, PyObject *path)
{
    PyObject *bytes = NULL;
    (void)module;
    if (path != Py_None && !PyUnicode_FSConverter(path, &bytes))
        return NULL;
    void *handle = bytes != NULL ? dlopen(PyBytes_AsString(bytes), RTLD_LAZY | RTLD_NOLOAD) : NULL;
    (void)hf_interpreters_keep(hf_interpreter_current(), handle);
    Py_XDECREF(bytes);
    Py_RETURN_NONE;
}

static int add_leak(void *context, const struct hf_interpreter_leak *leak)
{
    PyObject *row =
        Py_BuildValue("(NsKK)", PyUnicode_DecodeFSDefault(leak->object), leak->why,
                      (unsigned long long)leak->interpreters, (unsigned long long)leak->bytes);
    return homefree_append(context, row);
}

static PyObject *interpreters_leaks(PyObject *module, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    (void)module;
    (void)unused;
    return listed(list, list != NULL ? hf_interpreters_leaks(add_leak, list) : 0);
}

static PyObject *interpreter_make_known(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    const int64_t current = hf_interpreter_current();
    if (hf_interpreters_hold(current) == 0)
        hf_interpreters_unhold(current);
    Py_RETURN_NONE;
}

static PyObject *interpreters_finish(PyObject *module, PyObject *timeout)
{
    (void)module;
    const long milliseconds = PyLong_AsLong(timeout);
    int error;
    if (milliseconds == -1 && PyErr_Occurred() != NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    error = hf_interpreters_finish((int)milliseconds);
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(error);
}

PyMethodDef homefree_interpreters_methods[] = {
    {"interpreters_engine", interpreters_engine, METH_NOARGS, engine_doc},
    {"interpreters_start", interpreters_start, METH_VARARGS, start_doc},
    {"interpreters_end", interpreters_end, METH_VARARGS, end_doc},
    {"interpreters_finish", interpreters_finish, METH_O, finish_doc},
    {"interpreters_numbers", interpreters_numbers, METH_O, numbers_doc},
    {"interpreters_memory", interpreters_memory, METH_NOARGS, memory_doc},
    {"interpreter_limit", interpreter_limit, METH_O, limit_doc},
    {"interpreter_limit_object", interpreter_limit_object, METH_O, object_doc},
    {"interpreter_make_known", interpreter_make_known, METH_NOARGS, known_doc},
    {"interpreter_current", interpreter_current, METH_NOARGS, current_doc},
    {"interpreter_keep", interpreter_keep, METH_O, keep_doc},
    {"interpreters_leaks", interpreters_leaks, METH_NOARGS, leaks_doc},
    {NULL, NULL, 0, NULL},
};
