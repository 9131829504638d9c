/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree.doctor()'s part of the extension: writes the record of this process (hf_doctor_record).
 * No state; any thread that holds the GIL.
 */
#include "python/native/module_state.h"

#include <homefree/homefree.h>

static PyObject *doctor_record(PyObject *self, PyObject *argument)
{
    int result, descriptor = PyObject_AsFileDescriptor(argument);
    (void)self;
    if (descriptor < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    result = hf_doctor_record(descriptor);
    Py_END_ALLOW_THREADS
    return homefree_done(result, NULL);
}

PyMethodDef homefree_doctor_methods[] = {
    {"doctor_record", doctor_record, METH_O,
     "doctor_record(file, /)\n--\n\n"
     "Write the facts about this process's allocators to an open file, for\n"
     "`homefree doctor --read`. OSError if that fails. Any thread."},
    {NULL, NULL, 0, NULL},
};
