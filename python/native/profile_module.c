/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree.profile()'s part of the extension: homefree/profile.h. No state; any thread that holds
 * the GIL.
 */
#include "python/native/module_state.h"

#include <homefree/homefree.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>

static const struct homefree_remedy remedies[] = {
    {-EBUSY,
     "a profile has begun already, or another thread looks at its samples; call profile_end() "
     "first"},
    {-EINVAL, "there is no profile; call profile_begin() first"},
    {-ENOTSUP,
     "this process cannot be profiled: it runs in diagnostics mode, whose reports have stacks "
     "by themselves, or libhomefree-profile.so is not installed beside libhomefree, as a line "
     "on stderr says"},
    {-EAGAIN, "another thread's fork takes long; try again"},
    {-ENOMEM, NULL},
    {0, NULL},
};

static PyObject *profile_begin(PyObject *module, PyObject *argument)
{
    int error;
    (void)module;
    const size_t mean = PyLong_AsSize_t(argument);
    if (mean == (size_t)-1 && PyErr_Occurred() != NULL)
        return NULL;
    if (mean == 0) {
        PyErr_SetString(PyExc_ValueError, "profile_begin(): mean must be at least 1");
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    error = hf_profile_begin(mean);
    Py_END_ALLOW_THREADS
    return homefree_done(error, remedies);
}

static PyObject *profile_end(PyObject *module, PyObject *unused)
{
    int error;
    (void)module;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    error = hf_profile_end();
    Py_END_ALLOW_THREADS
    return homefree_done(error, remedies);
}

/* ---- samples ---- */

static PyObject *text(const char *bytes)
{
    return PyUnicode_DecodeFSDefault(bytes);
}

/* Puts what may be NULL, with an exception, into a tuple. */
static int put(PyObject *tuple, size_t index, PyObject *item)
{
    return item != NULL ? PyTuple_SetItem(tuple, (Py_ssize_t)index, item) : -1;
}

static PyObject *python_frames(const struct hf_profile_sample *sample)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)sample->python_count);
    for (size_t i = 0; tuple != NULL && i < sample->python_count; i++) {
        const struct hf_profile_python *frame = &sample->python[i];
        PyObject *one = PyTuple_New(3);
        if (one != NULL &&
            (put(one, 0, text(frame->function)) != 0 || put(one, 1, text(frame->file)) != 0 ||
             put(one, 2, PyLong_FromUnsignedLong(frame->line)) != 0))
            Py_CLEAR(one);
        if (put(tuple, i, one) != 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *native_frames(const struct hf_profile_sample *sample)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)sample->frames_count);
    for (size_t i = 0; tuple != NULL && i < sample->frames_count; i++)
        if (put(tuple, i, PyLong_FromVoidPtr((void *)(uintptr_t)sample->frames[i])) != 0)
            Py_CLEAR(tuple);
    return tuple;
}

struct listing {
    PyObject *rows;
    PyObject *stacks; /* (object, python, native), by their numbers */
};

/* A borrowed reference. */
static PyObject *stack_of(const struct listing *listing, const struct hf_profile_sample *sample)
{
    PyObject *number = PyLong_FromUnsignedLongLong(sample->stack);
    PyObject *stack = number != NULL ? PyDict_GetItemWithError(listing->stacks, number) : NULL;
    if (stack == NULL && number != NULL && PyErr_Occurred() == NULL) {
        stack = PyTuple_New(3);
        if (stack != NULL && (put(stack, 0, text(sample->object)) != 0 ||
                              put(stack, 1, python_frames(sample)) != 0 ||
                              put(stack, 2, native_frames(sample)) != 0 ||
                              PyDict_SetItem(listing->stacks, number, stack) != 0))
            Py_CLEAR(stack);
        Py_XDECREF(stack);
    }
    Py_XDECREF(number);
    return stack;
}

static int add_sample(const struct hf_profile_sample *sample, void *context)
{
    const struct listing *listing = context;
    PyObject *stack = stack_of(listing, sample);
    PyObject *row = stack != NULL ? PyTuple_New(7) : NULL;
    int failure = row == NULL ||
                  put(row, 0, PyLong_FromVoidPtr((void *)(uintptr_t)sample->block)) != 0 ||
                  put(row, 1, PyLong_FromUnsignedLongLong(sample->bytes)) != 0 ||
                  put(row, 2, PyFloat_FromDouble(sample->weight_bytes)) != 0 ||
                  put(row, 3, PyFloat_FromDouble(sample->weight_blocks)) != 0;
    for (size_t i = 0; !failure && i < 3; i++) {
        PyObject *part = PyTuple_GetItem(stack, (Py_ssize_t)i);
        Py_XINCREF(part);
        failure = put(row, 4 + i, part) != 0;
    }
    failure = failure || PyList_Append(listing->rows, row) != 0;
    Py_XDECREF(row);
    return failure ? 1 : 0;
}

static PyObject *profile_samples(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    struct listing listing = {PyList_New(0), PyDict_New()};
    int result = listing.rows == NULL || listing.stacks == NULL;
    if (result == 0)
        result = hf_profile_each(add_sample, &listing);
    Py_XDECREF(listing.stacks);
    if (result == 0)
        return listing.rows;
    Py_XDECREF(listing.rows);
    return result < 0 ? homefree_failed(result, remedies) : NULL;
}

static PyObject *profile_symbol(PyObject *module, PyObject *argument)
{
    Dl_info info;
    (void)module;
    const char *address = PyLong_AsVoidPtr(argument);
    if (address == NULL && PyErr_Occurred() != NULL)
        return NULL;
    if (address == NULL || dladdr(address - 1, &info) == 0)
        Py_RETURN_NONE;
    const char *from = info.dli_sname != NULL ? info.dli_saddr : info.dli_fbase;
    return Py_BuildValue("(zzn)", info.dli_fname, info.dli_sname, (Py_ssize_t)(address - from));
}

PyMethodDef homefree_profile_methods[] = {
    {"profile_begin", profile_begin, METH_O,
     "profile_begin(mean, /)\n--\n\nhf_profile_begin(). Any thread."},
    {"profile_end", profile_end, METH_NOARGS, "profile_end()\n--\n\nhf_profile_end(). Any thread."},
    {"profile_samples", profile_samples, METH_NOARGS,
     "profile_samples()\n--\n\n"
     "hf_profile_each(): a list of (block, bytes, weight_bytes, weight_blocks, object, python,\n"
     "native). python: (function, file, line) for each frame; native: return addresses; both\n"
     "innermost first. Samples of one stack share the last three. Any thread."},
    {"profile_symbol", profile_symbol, METH_O,
     "profile_symbol(address, /)\n--\n\n"
     "Who has the call that returns to an address: (object, symbol, offset), or None. Any thread."},
    {NULL, NULL, 0, NULL},
};
