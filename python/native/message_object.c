/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of the extension that lets CPython pass memory by reference where CPython itself passes
 * objects between interpreters (concurrent.interpreters, InterpreterPoolExecutor): the type
 * homefree.interpreters.Message, and the seam to CPython's registry of types that cross.
 *
 * The registry and its structures are CPython's own, the same from 3.12 to 3.14 but for one
 * signature. An unknown version is left alone: there, messages and arrays cross as pickles do, as
 * copies. Owns nothing; one thread at a time adds to the registry from here. Functions are called
 * by attached threads. A message that nobody has received may be dropped by any thread.
 */
#include "python/native/crossing.h"
#include "python/native/module_parts.h"

#include <homefree/homefree.h>
#include <homefree/python/record.h>
#include <stdbool.h>
#include <string.h>

PyDoc_STRVAR(register_doc,
             "register_crossing(type)\n--\n\n"
             "Makes objects of exactly this type cross by reference between CPython's "
             "interpreters, from this one. False if this CPython's registry is not known.");
PyDoc_STRVAR(open_doc, "open()\n--\n\n"
                       "The object, made anew in this interpreter, on the same memory. Threads: "
                       "any. Since 1.0.");

/* This interpreter's own _homefree, with the parts that this file belongs to. */
static PyObject *own_module(void)
{
    PyObject *module = PyImport_ImportModule("homefree._homefree");
    PyObject *added = module != NULL ? PyObject_CallMethod(module, "add_interpreters", NULL) : NULL;
    if (added == NULL)
        Py_CLEAR(module);
    Py_XDECREF(added);
    return module;
}

/* ---- CPython's registry ---- */

/* _PyXIData_t; in 3.12 and 3.13, _PyCrossInterpreterData. */
struct crossing_data {
    void *data;
    PyObject *object;
    int64_t interpreter; /* CPython writes it afterwards */
    PyObject *(*make)(struct crossing_data *data);
    void (*release)(void *data);
};

typedef int (*get_data)(PyThreadState *thread, PyObject *object, struct crossing_data *data);

/* _PyXIData_getdata_t of 3.14: one of the two. */
struct get_data_either {
    get_data basic;
    void (*with_fallback)(void);
};

typedef int (*register_3_14)(PyThreadState *, PyTypeObject *, struct get_data_either);
typedef int (*register_3_12)(PyTypeObject *, get_data);

/* Returns 1, 0 if this CPython is not known, or -1 with an exception set. */
static int add_to_registry(PyTypeObject *type, get_data function)
{
    const char *version = Py_GetVersion();
    int error = 0;
    if (strncmp(version, "3.14.", 5) == 0) {
        register_3_14 add = (register_3_14)homefree_function_of_cpython("_PyXIData_RegisterClass");
        if (add == NULL)
            return 0;
        error = add(PyThreadState_Get(), type, (struct get_data_either){function, NULL});
    } else if (strncmp(version, "3.12.", 5) == 0 || strncmp(version, "3.13.", 5) == 0) {
        register_3_12 add =
            (register_3_12)homefree_function_of_cpython("_PyCrossInterpreterData_RegisterClass");
        if (add == NULL)
            return 0;
        error = add(type, function);
    } else
        return 0;
    if (error != 0 && PyErr_Occurred() == NULL)
        PyErr_NoMemory();
    return error == 0 ? 1 : -1;
}

/* ---- crossing ---- */

/* The object of a message, which is used up, also on error. */
static PyObject *opened(PyObject *module, struct homefree_message *message)
{
    PyObject *parts = homefree_message_open(module, message);
    PyObject *crossing =
        parts != NULL ? PyImport_ImportModule("homefree.interpreters._crossing") : NULL;
    PyObject *unpack = crossing != NULL ? PyObject_GetAttrString(crossing, "unpack") : NULL;
    PyObject *object = unpack != NULL ? PyObject_CallObject(unpack, parts) : NULL;
    Py_XDECREF(unpack);
    Py_XDECREF(crossing);
    Py_XDECREF(parts);
    return object;
}

/* In the interpreter that receives. The memory is this interpreter's from here on: what CPython
 * releases afterwards, it releases in the one that sent, whenever code runs there again. */
static PyObject *receive(struct crossing_data *data)
{
    struct homefree_message *message = data->data;
    if (message == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "this has been received already");
        return NULL;
    }
    PyObject *module = own_module();
    if (module == NULL)
        return NULL;
    data->data = NULL;
    PyObject *object = opened(module, message);
    Py_DECREF(module);
    return object;
}

static void release(void *message)
{
    homefree_message_drop(message);
}

/* Returns 0, or -1 with an exception set. Takes the message over. */
static int send(struct crossing_data *data, struct homefree_message *message)
{
    if (message == NULL) {
        if (PyErr_Occurred() == NULL)
            PyErr_NoMemory();
        return -1;
    }
    data->data = message;
    data->make = receive;
    data->release = release;
    return 0;
}

/* A message of any object that can be pickled; NULL with an exception set. */
static struct homefree_message *packed(PyObject *object)
{
    struct homefree_message *message = NULL;
    PyObject *module = own_module();
    PyObject *crossing =
        module != NULL ? PyImport_ImportModule("homefree.interpreters._crossing") : NULL;
    PyObject *parts = crossing != NULL ? PyObject_CallMethod(crossing, "pack", "O", object) : NULL;
    PyObject *pickle, *buffers;
    if (parts != NULL && PyArg_ParseTuple(parts, "OO", &pickle, &buffers))
        message = homefree_message_new(module, pickle, buffers);
    Py_XDECREF(parts);
    Py_XDECREF(crossing);
    Py_XDECREF(module);
    return message;
}

static int send_object(PyThreadState *thread, PyObject *object, struct crossing_data *data)
{
    (void)thread;
    return send(data, packed(object));
}

/* ---- Message ---- */

struct message_object {
    PyObject ob_base;
    struct homefree_message *message;
};

static struct homefree_message *message_of(PyObject *self)
{
    return ((struct message_object *)self)->message;
}

static int send_message(PyThreadState *thread, PyObject *self, struct crossing_data *data)
{
    (void)thread;
    return send(data, homefree_message_copy(message_of(self)));
}

static PyObject *message_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"pickle", "buffers", NULL};
    PyObject *pickle, *buffers;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "SO!:Message", names, &pickle,
                                     &PyList_Type, &buffers))
        return NULL;
    PyObject *module = own_module();
    struct homefree_message *message =
        module != NULL ? homefree_message_new(module, pickle, buffers) : NULL;
    Py_XDECREF(module);
    struct message_object *made =
        message != NULL ? PyObject_New(struct message_object, type) : NULL;
    if (made != NULL)
        made->message = message;
    else
        homefree_message_drop(message);
    return (PyObject *)made;
}

static void message_dealloc(PyObject *self)
{
    struct homefree_message *message = message_of(self);
    PyTypeObject *type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
    struct hf_py_error kept;
    hf_py_error_keep(&kept);
    homefree_message_drop(message);
    hf_py_error_put_back(&kept);
}

/* What a function does with another message of the same memory, which that uses up. */
static PyObject *with_copy(PyObject *self, PyObject *(*function)(PyObject *module,
                                                                 struct homefree_message *message))
{
    PyObject *module = own_module();
    if (module == NULL)
        return NULL;
    struct homefree_message *copy = homefree_message_copy(message_of(self));
    PyObject *result = copy != NULL ? function(module, copy) : PyErr_NoMemory();
    Py_DECREF(module);
    return result;
}

static PyObject *message_open(PyObject *self, PyObject *unused)
{
    (void)unused;
    return with_copy(self, opened);
}

/* Where pickles cross, so does a message: by reference with our own pickler, which passes buffers
 * on, else as a copy. */
static PyObject *message_reduce(PyObject *self, PyObject *protocol)
{
    (void)protocol;
    PyObject *crossing = PyImport_ImportModule("homefree.interpreters._crossing");
    PyObject *parts = crossing != NULL ? with_copy(self, homefree_message_open) : NULL;
    PyObject *reduce = parts != NULL ? PyObject_GetAttrString(crossing, "reduce_message") : NULL;
    PyObject *result = reduce != NULL ? PyObject_CallObject(reduce, parts) : NULL;
    Py_XDECREF(reduce);
    Py_XDECREF(parts);
    Py_XDECREF(crossing);
    return result;
}

static PyMethodDef message_methods[] = {
    {"open", message_open, METH_NOARGS, open_doc},
    {"__reduce_ex__", message_reduce, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot message_slots[] = {
    {Py_tp_new, (void *)message_new},
    {Py_tp_dealloc, (void *)message_dealloc},
    {Py_tp_methods, message_methods},
    {Py_tp_doc, "Message(pickle, buffers)\n--\n\nAn object that crosses between interpreters with "
                "its memory by reference; homefree.interpreters.share() makes it."},
    {0, NULL},
};
static PyType_Spec message_spec = {"homefree.interpreters.Message", sizeof(struct message_object),
                                   0, Py_TPFLAGS_DEFAULT, message_slots};

int homefree_message_exec(PyObject *module)
{
    struct homefree_state *state = homefree_state_of(module);
    state->message = (PyTypeObject *)PyType_FromSpec(&message_spec);
    return homefree_add_type(module, "Message", state->message);
}

static PyObject *register_crossing(PyObject *module, PyObject *type)
{
    if (!PyType_Check(type)) {
        PyErr_SetString(PyExc_TypeError, "register_crossing() takes a type");
        return NULL;
    }
    const bool is_message = type == (PyObject *)homefree_state_of(module)->message;
    int known;
    /* CPython's registry of an interpreter's own types has no lock (seen in 3.14). */
    HOMEFREE_BEGIN_ALONE(module);
    known = add_to_registry((PyTypeObject *)type, is_message ? send_message : send_object);
    HOMEFREE_END_ALONE();
    return known >= 0 ? PyBool_FromLong(known) : NULL;
}

PyMethodDef homefree_message_methods[] = {
    {"register_crossing", register_crossing, METH_O, register_doc},
    {NULL, NULL, 0, NULL},
};
