/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree.on_pressure()'s part of the extension, and the background thread (homefree/pressure.h).
 * A watch is a capsule: who waits holds it, so it ends when nobody waits any more. No state; any
 * thread that holds the GIL, which a wait releases.
 */
#include "python/native/module_state.h"

#include <homefree/homefree.h>

#include <errno.h>

static const char watch_name[] = "homefree.pressure_watch";

static const struct homefree_remedy remedies[] = {
    {-EPERM, "the background thread is forbidden: remove background:off from HOMEFREE_CONF"},
    {-ENOTSUP, "there is no background thread: libhomefree-background.so is missing beside "
               "libhomefree, or another, older libhomefree in this process is the heap; install "
               "one whole build of homefree"},
    {-EMFILE, "16 callbacks wait for pressure already; cancel() one that is not needed"},
    {0, NULL},
};

static PyObject *background_start(PyObject *module, PyObject *unused)
{
    int error;
    (void)module;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    error = hf_background_start();
    Py_END_ALLOW_THREADS
    return homefree_done(error, remedies);
}

static void end_watch(PyObject *capsule)
{
    hf_pressure_end(PyCapsule_GetPointer(capsule, watch_name));
}

static PyObject *pressure_begin(PyObject *module, PyObject *argument)
{
    struct hf_pressure_watch *watch = NULL;
    int error;
    const unsigned long per_cent = PyLong_AsUnsignedLong(argument);
    (void)module;
    if (PyErr_Occurred() != NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    error = hf_pressure_begin(&watch, per_cent <= 100 ? (unsigned)per_cent : 0);
    Py_END_ALLOW_THREADS
    if (error != 0)
        return homefree_failed(error, remedies);
    PyObject *capsule = PyCapsule_New(watch, watch_name, end_watch);
    if (capsule == NULL)
        hf_pressure_end(watch);
    return capsule;
}

static PyObject *pressure_wait(PyObject *module, PyObject *capsule)
{
    struct hf_pressure_watch *watch = PyCapsule_GetPointer(capsule, watch_name);
    struct hf_pressure seen = {.size = sizeof seen};
    int error;
    (void)module;
    if (watch == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    error = hf_pressure_wait(watch, &seen, -1);
    Py_END_ALLOW_THREADS
    if (error == -ECANCELED)
        Py_RETURN_NONE;
    if (error != 0)
        return homefree_failed(error, remedies);
    return Py_BuildValue("(KKN)", (unsigned long long)seen.usage, (unsigned long long)seen.limit,
                         PyBool_FromLong(seen.stalled != 0));
}

static PyObject *pressure_cancel(PyObject *module, PyObject *capsule)
{
    struct hf_pressure_watch *watch = PyCapsule_GetPointer(capsule, watch_name);
    (void)module;
    if (watch == NULL)
        return NULL;
    hf_pressure_cancel(watch);
    Py_RETURN_NONE;
}

PyMethodDef homefree_pressure_methods[] = {
    {"background_start", background_start, METH_NOARGS,
     "background_start()\n--\n\nhf_background_start(). Any thread."},
    {"pressure_begin", pressure_begin, METH_O,
     "pressure_begin(per_cent, /)\n--\n\nhf_pressure_begin(): a watch. Any thread."},
    {"pressure_wait", pressure_wait, METH_O,
     "pressure_wait(watch, /)\n--\n\n"
     "hf_pressure_wait(): (usage, limit, stalled), or None once the watch is cancelled. One "
     "thread."},
    {"pressure_cancel", pressure_cancel, METH_O,
     "pressure_cancel(watch, /)\n--\n\nhf_pressure_cancel(). Any thread."},
    {NULL, NULL, 0, NULL},
};
