/*
 * A module that starts a thread of libstdc++'s, which no other library of the process need have
 * loaded. use() tells how many elements a thread-local object of the thread's has had.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#include <thread>
#include <vector>

static thread_local std::vector<int> numbers{1};

static PyObject *use(PyObject *, PyObject *)
{
    size_t size = 0;
    std::thread([&size] {
        numbers.push_back(2);
        size = numbers.size();
    }).join();
    return PyLong_FromSize_t(size);
}

static PyMethodDef methods[] = {{"use", use, METH_NOARGS, nullptr}, {}};
static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "outgoing_cc", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr,
};

PyMODINIT_FUNC PyInit_outgoing_cc()
{
    return PyModule_Create(&definition);
}
