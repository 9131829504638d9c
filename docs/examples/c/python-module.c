/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/python/module.h>, as alloc/manual/pages.py takes them. */
#include <Python.h>
#include <homefree/python.h>

#include <assert.h>

/* A module whose name only the build knows; CPython 3.15 and later take the second function. */
static PyObject *answer(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    return PyLong_FromLong(42);
}

static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, "The answer."}, {0}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = Py_STRINGIFY(HOMEFREE_MODULE_NAME), .m_methods = methods};

PyMODINIT_FUNC HF_MODULE_INIT(void)
{
    return PyModuleDef_Init(&definition);
}

#if PY_VERSION_HEX >= 0x030F0000
PyABIInfo_VAR(abi);
static PySlot slots[] = {PySlot_STATIC_DATA(Py_mod_abi, &abi),
                         PySlot_STATIC_DATA(Py_mod_name, Py_STRINGIFY(HOMEFREE_MODULE_NAME)),
                         PySlot_STATIC_DATA(Py_mod_methods, methods), PySlot_END};

PyMODEXPORT_FUNC HF_MODULE_EXPORT(void)
{
    return slots;
}
#endif

int main(void)
{
    /* Built with -DHOMEFREE_MODULE_NAME=example. */
    int error = PyImport_AppendInittab("example", PyInit_example);
    assert(error == 0);
    Py_Initialize();
    PyObject *module = PyImport_ImportModule("example");
    assert(module != NULL);
    PyObject *number = PyObject_CallMethod(module, "answer", NULL);
    assert(number != NULL && PyLong_AsLong(number) == 42);
    Py_DECREF(number);
    Py_DECREF(module);
    return Py_FinalizeEx() == 0 ? 0 : 1;
}
