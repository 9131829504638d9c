/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See module_state.h.
 */
#include "python/native/module_state.h"

#include <errno.h>
#include <homefree/homefree.h>
#include <string.h>

/* ---- errors ---- */

PyObject *homefree_failed(int error, const struct homefree_remedy *remedies)
{
    while (remedies != NULL && remedies->error != 0 && remedies->error != error)
        remedies++;
    if (remedies == NULL || remedies->error == 0) {
        errno = -error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    if (remedies->text == NULL)
        return PyErr_NoMemory();
    PyErr_SetString(PyExc_RuntimeError, remedies->text);
    return NULL;
}

PyObject *homefree_done(int error, const struct homefree_remedy *remedies)
{
    if (error != 0)
        return homefree_failed(error, remedies);
    Py_RETURN_NONE;
}

PyObject *homefree_os_error(int error, const char *text, PyObject *path)
{
    PyObject *arguments = Py_BuildValue(path != NULL ? "isO" : "is", -error,
                                        text != NULL ? text : strerror(-error), path);
    if (arguments != NULL) {
        PyErr_SetObject(PyExc_OSError, arguments);
        Py_DECREF(arguments);
    }
    return NULL;
}

/* ---- lists ---- */

int homefree_append(PyObject *list, PyObject *item)
{
    const int result = list != NULL && item != NULL ? PyList_Append(list, item) : -1;
    Py_XDECREF(item);
    return result;
}

void *homefree_grown(void *array, size_t *capacity, size_t count, size_t size)
{
    if (count < *capacity)
        return array;
    size_t doubled = *capacity * 2 + 32;
    void *grown = hf_reallocarray(array, doubled, size);
    if (grown != NULL)
        *capacity = doubled;
    return grown;
}

void homefree_rows_add(struct homefree_rows *rows, const void *item, size_t size)
{
    char *items = homefree_grown(rows->items, &rows->capacity, rows->count, size);
    if (items == NULL) {
        rows->failed = 1;
        return;
    }
    rows->items = items;
    memcpy(items + rows->count++ * size, item, size);
}

/* ---- modules ---- */

int homefree_add_type(PyObject *module, const char *name, PyTypeObject *type)
{
    if (type == NULL)
        return -1;
    Py_INCREF((PyObject *)type);
    if (PyModule_AddObject(module, name, (PyObject *)type) == 0)
        return 0;
    Py_DECREF((PyObject *)type);
    return -1;
}

PyObject *homefree_has_slot(PyObject *made, int number, void *value)
{
    const PyModuleDef_Slot *slot =
        PyObject_TypeCheck(made, &PyModuleDef_Type) ? ((PyModuleDef *)made)->m_slots : NULL;
    while (slot != NULL && slot->slot != 0 && slot->slot != number)
        slot++;
    return PyBool_FromLong(slot != NULL && slot->slot == number && slot->value == value);
}
