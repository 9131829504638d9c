/*
 * methods.h - Python's view of blocks.h, and of plain functions, in the plain C API.
 *
 * The plain API and not pybind11, because pybind11's set-up of one function with an argument
 * already frees what libstdc++ allocated: a module with a private allocator would not live to its
 * first row.
 */
#ifndef CROSSINGS_METHODS_H
#define CROSSINGS_METHODS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "blocks.h"

#include <exception>

namespace crossings::methods
{

/* Calls `run`; an exception becomes Python's RuntimeError. */
template <void run()> PyObject *call(PyObject *, PyObject *)
{
    try {
        run();
    } catch (const std::exception &error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
        return nullptr;
    }
    Py_RETURN_NONE;
}

template <std::uintptr_t give(std::size_t, unsigned)>
PyObject *allocate(PyObject *, PyObject *arguments)
{
    Py_ssize_t size;
    unsigned seed;
    if (!PyArg_ParseTuple(arguments, "nI", &size, &seed))
        return nullptr;
    return PyLong_FromSize_t(give(static_cast<std::size_t>(size), seed));
}

template <void take(std::uintptr_t)> PyObject *release(PyObject *, PyObject *address)
{
    const std::uintptr_t block = PyLong_AsSize_t(address);
    if (PyErr_Occurred())
        return nullptr;
    take(block);
    Py_RETURN_NONE;
}

inline PyObject *intact(PyObject *, PyObject *arguments)
{
    PyObject *address;
    Py_ssize_t size;
    unsigned seed;
    if (!PyArg_ParseTuple(arguments, "OnI", &address, &size, &seed))
        return nullptr;
    const std::uintptr_t block = PyLong_AsSize_t(address);
    if (PyErr_Occurred())
        return nullptr;
    return PyBool_FromLong(blocks::intact(block, static_cast<std::size_t>(size), seed));
}

/* Takes a list of addresses. */
inline PyObject *release_in_threads(PyObject *, PyObject *list)
{
    std::vector<std::uintptr_t> addresses;
    for (Py_ssize_t i = 0; PyList_Check(list) && i < PyList_Size(list); i++)
        addresses.push_back(PyLong_AsSize_t(PyList_GetItem(list, i)));
    if (PyErr_Occurred())
        return nullptr;
    PyThreadState *state = PyEval_SaveThread();
    blocks::release_in_threads(addresses);
    PyEval_RestoreThread(state);
    Py_RETURN_NONE;
}

} // namespace crossings::methods

/* Rows of a PyMethodDef table. */
#define CROSSINGS_BLOCK_METHODS                                                                  \
    {"allocate", crossings::methods::allocate<crossings::blocks::allocate>, METH_VARARGS,        \
     nullptr},                                                                                   \
        {"release", crossings::methods::release<crossings::blocks::release>, METH_O, nullptr},   \
        {"allocate_array", crossings::methods::allocate<crossings::blocks::allocate_array>,      \
         METH_VARARGS, nullptr},                                                                 \
        {"release_array", crossings::methods::release<crossings::blocks::release_array>, METH_O, \
         nullptr},                                                                               \
        {"release_in_threads", crossings::methods::release_in_threads, METH_O, nullptr},         \
    {                                                                                            \
        "intact", crossings::methods::intact, METH_VARARGS, nullptr                              \
    }

#define CROSSINGS_METHOD(name)                                                   \
    {                                                                            \
#        name, crossings::methods::call < crossings::name>, METH_NOARGS, nullptr \
    }

#endif
