/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of the extension for memory with a layout: objects of the type
 * homefree.interpreters.View show the buffer of another object in items of a certain format, and in
 * a certain shape. A memoryview can be cast to a few formats alone. Each object owns a buffer of
 * what it shows and its own copy of the layout; functions are called by attached threads.
 */
#include "python/native/layout.h"
#include "python/native/module_parts.h"

#include <homefree/homefree.h>
#include <string.h>

PyDoc_STRVAR(view_doc, "view(object, format, itemsize, shape)\n--\n\n"
                       "A memoryview of an object's buffer, row by row in a layout of its own.");

enum { DIMENSIONS_MAX = 64, FORMAT = 0x4, ND = 0x8, COLUMNS = 0x40, STRIDES = 0x10 | ND };

struct view {
    PyObject ob_base;
    Py_buffer shown;
    char *format;
    Py_ssize_t item_size;
    int dimensions;
    Py_ssize_t *shape, *strides; /* one block with the format */
};

static int view_buffer(PyObject *self, Py_buffer *out, int flags)
{
    const struct view *view = (const struct view *)self;
    if ((flags & COLUMNS) != 0 && view->dimensions > 1) {
        out->obj = NULL;
        PyErr_SetString(PyExc_BufferError, "this memory is stored row by row");
        return -1;
    }
    if (PyBuffer_FillInfo(out, self, view->shown.buf, view->shown.len, view->shown.readonly,
                          flags) != 0)
        return -1;
    out->itemsize = view->item_size;
    out->ndim = view->dimensions;
    out->format = (flags & FORMAT) != 0 ? view->format : NULL;
    out->shape = (flags & ND) != 0 ? view->shape : NULL;
    out->strides = (flags & STRIDES) == STRIDES ? view->strides : NULL;
    return 0;
}

static void view_dealloc(PyObject *self)
{
    struct view *view = (struct view *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyBuffer_Release(&view->shown);
    hf_free(view->shape);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
}

static PyObject *view_refuse(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    (void)type;
    (void)arguments;
    (void)keywords;
    PyErr_SetString(PyExc_TypeError, "homefree.interpreters.View objects cannot be made");
    return NULL;
}

static PyType_Slot view_slots[] = {
    {Py_tp_new, (void *)view_refuse},
    {Py_tp_dealloc, (void *)view_dealloc},
    {Py_bf_getbuffer, (void *)view_buffer},
    {0, NULL},
};
static PyType_Spec view_spec = {"homefree.interpreters.View", sizeof(struct view), 0,
                                Py_TPFLAGS_DEFAULT, view_slots};

int homefree_layout_exec(PyObject *module)
{
    struct homefree_state *state = PyModule_GetState(module);
    state->view = (PyTypeObject *)PyType_FromSpec(&view_spec);
    return state->view != NULL ? 0 : -1;
}

PyObject *homefree_layout_shown(PyObject *object)
{
    return ((struct view *)object)->shown.obj;
}

/* Fills in the layout; false with an exception set. */
static int lay_out(struct view *view, const char *format, PyObject *shape)
{
    const size_t dimensions = (size_t)view->dimensions;
    Py_ssize_t bytes = view->item_size;
    view->shape = hf_malloc(2 * dimensions * sizeof(Py_ssize_t) + strlen(format) + 1);
    if (view->shape == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    view->strides = view->shape + dimensions;
    view->format = (char *)(view->strides + dimensions);
    memcpy(view->format, format, strlen(format) + 1);
    for (size_t i = dimensions; i-- > 0;) {
        const Py_ssize_t length = PyLong_AsSsize_t(PyTuple_GetItem(shape, (Py_ssize_t)i));
        if (length == -1 && PyErr_Occurred() != NULL)
            return -1;
        view->shape[i] = length;
        view->strides[i] = bytes;
        if (length < 0 || __builtin_mul_overflow(bytes, length, &bytes))
            bytes = -1;
    }
    if (bytes == view->shown.len)
        return 0;
    PyErr_SetString(PyExc_ValueError, "view(): this memory does not have the size of that layout");
    return -1;
}

static PyObject *view_new(PyObject *module, PyObject *arguments)
{
    struct homefree_state *state = PyModule_GetState(module);
    PyObject *object, *shape, *result = NULL;
    const char *format;
    Py_ssize_t item_size;
    if (!PyArg_ParseTuple(arguments, "OsnO!:view", &object, &format, &item_size, &PyTuple_Type,
                          &shape))
        return NULL;
    if (item_size < 1 || PyTuple_Size(shape) > DIMENSIONS_MAX) {
        PyErr_SetString(PyExc_ValueError, "view(): there is no such layout");
        return NULL;
    }
    struct view *view = PyObject_New(struct view, state->view);
    if (view == NULL)
        return NULL;
    view->item_size = item_size;
    view->dimensions = (int)PyTuple_Size(shape);
    view->shape = NULL;
    view->shown.obj = NULL;
    if (PyObject_GetBuffer(object, &view->shown, 0) == 0 && lay_out(view, format, shape) == 0)
        result = PyMemoryView_FromObject((PyObject *)view);
    Py_DECREF((PyObject *)view);
    return result;
}

PyMethodDef homefree_layout_methods[] = {
    {"view", view_new, METH_VARARGS, view_doc},
    {NULL, NULL, 0, NULL},
};
