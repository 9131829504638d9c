/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of the extension for memory that crosses between interpreters: messages (crossing.h),
 * and the type homefree.interpreters.Shared, which is such memory where it arrives. Owns nothing: a
 * piece of memory belongs to its deleter. Functions are called by attached threads; deleters run on
 * any thread, and what only the home interpreter may release is posted there.
 *
 * How a piece is kept alive (`keep`):
 *
 * - What a NumPy array owns: the block itself is shared (hf_python_share). No interpreter is
 * needed.
 * - A Shared object: its deleter has one more holder.
 * - Anything else: its buffer is held in the interpreter that has it (hf_interpreters_hold). An
 *   interpreter of homefree's does not end until the buffer was released; a guest (guests.h) does,
 *   and then the buffer is leaked.
 */
#include "python/native/crossing.h"
#include "python/native/module_parts.h"

#include "python/native/buffer_protocol.h"
#include "python/native/layout.h"

#include <errno.h>
#include <homefree/homefree.h>
#include <homefree/interpreters.h>
#include <homefree/python/capsule.h>
#include <homefree/python/record.h>
#include <stdbool.h>
#include <string.h>

PyDoc_STRVAR(pack_doc, "message_pack(pickle, buffers)\n--\n\n"
                       "A message of a pickle and the buffers that it left out, as a capsule.");
PyDoc_STRVAR(address_doc, "message_send(message)\n--\n\n"
                          "The address of a message, which the capsule no longer owns.");
PyDoc_STRVAR(open_doc, "message_open(address)\n--\n\n"
                       "The (pickle, buffers) of a message, which is used up.");
PyDoc_STRVAR(shared_doc, "shared(owner, address, size, readonly)\n--\n\n"
                         "Memory that an object of this interpreter owns, as a Shared object.");

PyDoc_STRVAR(record_doc, "shared_record(shared)\n--\n\n"
                         "A capsule that holds the memory of a Shared object, and its address.");

/* ---- Shared ---- */

struct shared {
    PyObject ob_base;
    void *pointer;
    Py_ssize_t size;
    int readonly;
    struct hf_release *keeper;
};

static void shared_dealloc(PyObject *self)
{
    struct hf_release *keeper = ((struct shared *)self)->keeper;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
    hf_python_drop(keeper);
}

static PyObject *shared_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    (void)type;
    (void)arguments;
    (void)keywords;
    PyErr_SetString(PyExc_TypeError, "homefree.interpreters.Shared objects are made by crossing "
                                     "between interpreters; use memoryview() on one");
    return NULL;
}

static int shared_buffer(PyObject *self, Py_buffer *view, int flags)
{
    struct shared *shared = (struct shared *)self;
    return PyBuffer_FillInfo(view, self, shared->pointer, shared->size, shared->readonly, flags);
}

static Py_ssize_t shared_length(PyObject *self)
{
    return ((struct shared *)self)->size;
}

static PyType_Slot shared_slots[] = {
    {Py_tp_dealloc, (void *)shared_dealloc},
    {Py_tp_new, (void *)shared_new},
    {Py_bf_getbuffer, (void *)shared_buffer},
    {Py_sq_length, (void *)shared_length},
    {Py_tp_doc, "Memory that other interpreters hold too; use memoryview() or numpy.frombuffer()."},
    {0, NULL},
};
static PyType_Spec shared_spec = {"homefree.interpreters.Shared", sizeof(struct shared), 0,
                                  Py_TPFLAGS_DEFAULT, shared_slots};

int homefree_crossing_exec(PyObject *module)
{
    struct homefree_state *state = homefree_state_of(module);
    state->shared = (PyTypeObject *)PyType_FromSpec(&shared_spec);
    return homefree_add_type(module, "Shared", state->shared);
}

/* The Shared object of a piece; takes over the caller's reference to the keeper, also on error. */
static PyObject *shared_of(struct homefree_state *state, void *pointer, Py_ssize_t size,
                           int readonly, struct hf_release *keeper)
{
    struct shared *made = PyObject_New(struct shared, state->shared);
    if (made == NULL) {
        hf_python_drop(keeper);
        return NULL;
    }
    made->pointer = pointer;
    made->size = size;
    made->readonly = readonly;
    made->keeper = keeper;
    return (PyObject *)made;
}

/* ---- keeping memory ---- */

/* A buffer that only its own interpreter may release. */
struct held {
    int64_t interpreter;
    Py_buffer view;
};

static void release_at_home(void *argument)
{
    struct held *held = argument;
    const int64_t interpreter = held->interpreter;
    struct hf_py_error kept;
    hf_py_error_keep(&kept);
    PyBuffer_Release(&held->view);
    hf_py_error_put_back(&kept);
    hf_free(held);
    hf_interpreters_unhold(interpreter);
}

static int let_go(void *argument)
{
    struct held *held = argument;
    if (hf_interpreter_current() != held->interpreter)
        return hf_interpreters_post(held->interpreter, release_at_home, held);
    release_at_home(held);
    return 0;
}

/* Holds a buffer in this interpreter; takes it over, also on error. NULL with an exception set. */
static struct hf_release *hold(const Py_buffer *view)
{
    struct hf_release *keeper = NULL;
    struct held *held = hf_malloc(sizeof *held);
    Py_buffer taken = *view;
    int error = held != NULL ? 0 : -ENOMEM;
    if (error == 0) {
        *held = (struct held){.interpreter = hf_interpreter_current(), .view = *view};
        error = hf_interpreters_hold(held->interpreter);
    }
    if (error == 0) {
        error = hf_release_new_attempt(&keeper, held, let_go, "homefree.Shared");
        if (error != 0)
            hf_interpreters_unhold(held->interpreter);
    }
    if (error != 0) {
        hf_free(held);
        PyBuffer_Release(&taken);
        if (error == -ENOMEM)
            PyErr_NoMemory();
        else
            PyErr_SetString(PyExc_RuntimeError, "this interpreter is ending, so nothing of it can "
                                                "be passed to others any more");
    }
    return keeper;
}

/* numpy.ndarray, or NULL without an exception if NumPy is not imported. A borrowed reference. */
static PyObject *array_type(struct homefree_state *state)
{
    PyObject *known = __atomic_load_n(&state->array, __ATOMIC_ACQUIRE);
    if (known != NULL)
        return known;
    PyObject *name = PyUnicode_FromString("numpy");
    PyObject *numpy = name != NULL ? PyImport_GetModule(name) : NULL;
    PyObject *found = numpy != NULL ? PyObject_GetAttrString(numpy, "ndarray") : NULL;
    Py_XDECREF(numpy);
    Py_XDECREF(name);
    PyErr_Clear(); /* a NumPy that is half imported has no arrays yet */
    if (found == NULL || __atomic_compare_exchange_n(&state->array, &known, found, false,
                                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return found;
    Py_DECREF(found); /* another thread was faster */
    return known;
}

/* What an object's memory belongs to: a new reference to the object at the end of the chain of an
 * array's bases and of views. NULL with an exception set. */
static PyObject *root_of(struct homefree_state *state, PyObject *object)
{
    PyObject *array = array_type(state);
    Py_INCREF(object);
    for (;;) {
        const char *attribute = NULL;
        if (Py_TYPE(object) == state->view) {
            PyObject *shown = homefree_layout_shown(object);
            Py_INCREF(shown);
            Py_DECREF(object);
            object = shown;
        }
        if (array != NULL && PyObject_TypeCheck(object, (PyTypeObject *)array))
            attribute = "base";
        else if (Py_TYPE(object) == &PyMemoryView_Type)
            attribute = "obj";
        PyObject *next = attribute != NULL ? PyObject_GetAttrString(object, attribute) : Py_None;
        if (attribute == NULL || next == Py_None) {
            if (attribute != NULL)
                Py_DECREF(next);
            return object;
        }
        Py_DECREF(object);
        if (next == NULL)
            return NULL;
        object = next;
    }
}

/* A deleter that keeps a buffer's memory; the buffer is released or taken over, also on error. NULL
 * with an exception set. */
static struct hf_release *keep(struct homefree_state *state, Py_buffer *view)
{
    struct hf_release *keeper = NULL;
    PyObject *root = root_of(state, view->obj);
    if (root == NULL) {
        PyBuffer_Release(view);
        return NULL;
    }
    PyObject *array = array_type(state);
    if (Py_TYPE(root) == state->shared) {
        keeper = ((struct shared *)root)->keeper;
        hf_release_take(keeper);
    } else if (array != NULL && PyObject_TypeCheck(root, (PyTypeObject *)array)) {
        (void)hf_python_share(root, &keeper);
    }
    Py_DECREF(root);
    if (keeper == NULL)
        return hold(view);
    PyBuffer_Release(view);
    return keeper;
}

/* ---- messages ---- */

struct piece {
    void *pointer;
    Py_ssize_t size;
    int readonly;
    struct hf_release *keeper;
};

struct homefree_message {
    size_t count;          /* of pieces; the first one is the pickle */
    struct piece pieces[]; /* those that are filled in */
};

struct homefree_message *homefree_message_copy(const struct homefree_message *message)
{
    const size_t size = sizeof *message + message->count * sizeof message->pieces[0];
    struct homefree_message *copy = hf_malloc(size);
    if (copy == NULL)
        return NULL;
    memcpy(copy, message, size);
    for (size_t i = 0; i < copy->count; i++)
        hf_release_take(copy->pieces[i].keeper);
    return copy;
}

void homefree_message_drop(struct homefree_message *message)
{
    if (message == NULL)
        return;
    for (size_t i = 0; i < message->count; i++)
        hf_release_drop(message->pieces[i].keeper);
    hf_free(message);
}

/* Copies the pickle, which is nobody's by reference. Returns 0 or -1. */
static int add_pickle(struct homefree_message *message, const char *bytes, Py_ssize_t size)
{
    struct piece *piece = &message->pieces[0];
    *piece = (struct piece){hf_malloc((size_t)size), size, 1, NULL};
    if (piece->pointer == NULL ||
        hf_release_new(&piece->keeper, piece->pointer, hf_free, "homefree.Shared") != 0) {
        hf_free(piece->pointer);
        return -1;
    }
    memcpy(piece->pointer, bytes, (size_t)size);
    message->count = 1;
    return 0;
}

static struct homefree_message *message_with(const char *bytes, Py_ssize_t size, size_t buffers)
{
    struct homefree_message *message =
        hf_malloc(sizeof *message + (buffers + 1) * sizeof(struct piece));
    if (message == NULL)
        return NULL;
    message->count = 0;
    if (add_pickle(message, bytes, size) == 0)
        return message;
    hf_free(message);
    return NULL;
}

struct homefree_message *homefree_message_of_text(const char *text)
{
    return message_with(text, (Py_ssize_t)strlen(text), 0);
}

static int add_buffer(struct homefree_state *state, struct homefree_message *message,
                      PyObject *object)
{
    Py_buffer view;
    if (PyObject_GetBuffer(object, &view, PyBUF_ANY_CONTIGUOUS) != 0)
        return -1;
    struct piece piece = {view.buf, view.len, view.readonly, NULL};
    piece.keeper = keep(state, &view);
    if (piece.keeper == NULL)
        return -1;
    message->pieces[message->count++] = piece;
    return 0;
}

struct homefree_message *homefree_message_new(PyObject *module, PyObject *pickle, PyObject *buffers)
{
    struct homefree_state *state = homefree_state_of(module);
    const Py_ssize_t count = PyList_Size(buffers);
    char *bytes;
    Py_ssize_t size;
    if (count < 0 || PyBytes_AsStringAndSize(pickle, &bytes, &size) != 0)
        return NULL;
    struct homefree_message *message = message_with(bytes, size, (size_t)count);
    if (message == NULL)
        return (struct homefree_message *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *object = PySequence_GetItem(buffers, i);
        const bool added = object != NULL && add_buffer(state, message, object) == 0;
        Py_XDECREF(object);
        if (!added) {
            homefree_message_drop(message);
            return NULL;
        }
    }
    return message;
}

PyObject *homefree_message_open(PyObject *module, struct homefree_message *message)
{
    struct homefree_state *state = homefree_state_of(module);
    PyObject *pickle = NULL, *buffers = PyTuple_New((Py_ssize_t)message->count - 1);
    for (size_t i = 0; i < message->count; i++) {
        struct piece piece = message->pieces[i];
        if (buffers == NULL) {
            hf_python_drop(piece.keeper);
            continue;
        }
        PyObject *made = shared_of(state, piece.pointer, piece.size, piece.readonly, piece.keeper);
        if (i == 0)
            pickle = made;
        else if (made != NULL)
            PyTuple_SetItem(buffers, (Py_ssize_t)i - 1, made);
        if (made == NULL)
            Py_CLEAR(buffers);
    }
    hf_free(message);
    PyObject *result = buffers != NULL ? PyTuple_Pack(2, pickle, buffers) : NULL;
    Py_XDECREF(pickle);
    Py_XDECREF(buffers);
    return result;
}

/* ---- functions of the module ---- */

static const char message_name[] = "homefree.message";

static void drop_capsule(PyObject *capsule)
{
    homefree_message_drop(PyCapsule_GetPointer(capsule, message_name));
}

static PyObject *message_pack(PyObject *module, PyObject *arguments)
{
    PyObject *pickle, *buffers;
    if (!PyArg_ParseTuple(arguments, "OO!:message_pack", &pickle, &PyList_Type, &buffers))
        return NULL;
    struct homefree_message *message = homefree_message_new(module, pickle, buffers);
    if (message == NULL)
        return NULL;
    PyObject *capsule = PyCapsule_New(message, message_name, drop_capsule);
    if (capsule == NULL)
        homefree_message_drop(message);
    return capsule;
}

static PyObject *message_send(PyObject *module, PyObject *capsule)
{
    (void)module;
    void *message;
    int error = -1;
    HOMEFREE_BEGIN_ALONE(capsule);
    message = PyCapsule_GetPointer(capsule, message_name);
    if (message != NULL && PyCapsule_SetDestructor(capsule, NULL) == 0)
        error = PyCapsule_SetName(capsule, "homefree.message sent");
    HOMEFREE_END_ALONE();
    return error == 0 ? PyLong_FromVoidPtr(message) : NULL;
}

static PyObject *message_open(PyObject *module, PyObject *address)
{
    struct homefree_message *message = PyLong_AsVoidPtr(address);
    if (message == NULL) {
        if (PyErr_Occurred() == NULL)
            PyErr_SetString(PyExc_ValueError, "message_open(): there is no message at 0");
        return NULL;
    }
    return homefree_message_open(module, message);
}

static PyObject *shared(PyObject *module, PyObject *arguments)
{
    PyObject *owner, *address;
    Py_buffer view = {.itemsize = 1};
    if (!PyArg_ParseTuple(arguments, "OOni:shared", &owner, &address, &view.len, &view.readonly))
        return NULL;
    view.buf = PyLong_AsVoidPtr(address);
    if (PyErr_Occurred() != NULL)
        return NULL;
    /* Releasing a buffer of an object without a buffer releases the object. */
    view.obj = owner;
    Py_INCREF(owner);
    struct hf_release *keeper = hold(&view);
    return keeper != NULL
               ? shared_of(homefree_state_of(module), view.buf, view.len, view.readonly, keeper)
               : NULL;
}

static PyObject *shared_record(PyObject *module, PyObject *object)
{
    if (Py_TYPE(object) != homefree_state_of(module)->shared) {
        PyErr_SetString(PyExc_TypeError, "shared_record(): this is not a Shared object");
        return NULL;
    }
    struct shared *memory = (struct shared *)object;
    PyObject *capsule = hf_capsule_of(memory->keeper);
    return capsule != NULL ? Py_BuildValue("Nn", capsule, (Py_ssize_t)memory->pointer) : NULL;
}

PyMethodDef homefree_crossing_methods[] = {
    {"message_pack", message_pack, METH_VARARGS, pack_doc},
    {"message_send", message_send, METH_O, address_doc},
    {"message_open", message_open, METH_O, open_doc},
    {"shared", shared, METH_VARARGS, shared_doc},
    {"shared_record", shared_record, METH_O, record_doc},
    {NULL, NULL, 0, NULL},
};
