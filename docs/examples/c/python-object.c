/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/python/object.h>, as alloc/manual/pages.py takes them. */
#include <Python.h>
#include <homefree/python.h>

#include <assert.h>

/* A structure of C that keeps a Python object, and that any thread may end, without the GIL. */
struct task {
    struct hf_release *callback;
};

static int begin(struct task *task, PyObject *callback)
{
    task->callback = hf_object_hold(callback);
    return task->callback == NULL ? -1 : 0; /* an exception is set */
}

static PyObject *call(const struct task *task)
{
    return PyObject_CallFunction(hf_object_held(task->callback), NULL);
}

static void end(struct task *task)
{
    hf_release_drop(task->callback);
}

int main(void)
{
    Py_Initialize();
    struct task task;
    int error = begin(&task, (PyObject *)&PyList_Type);
    assert(error == 0);
    PyObject *list = call(&task);
    assert(list != NULL && PyList_Check(list));
    Py_DECREF(list);
    end(&task);
    return Py_FinalizeEx() == 0 ? 0 : 1;
}
