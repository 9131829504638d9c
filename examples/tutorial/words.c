/* A module with a mistake that dies: one allocator's block goes to another one's free(). */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <wctype.h>

static PyObject *shout(PyObject *module, PyObject *text)
{
    (void)module;
    Py_ssize_t length;
    wchar_t *wide = PyUnicode_AsWideCharString(text, &length);
    if (wide == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < length; i++)
        wide[i] = (wchar_t)towupper((wint_t)wide[i]);
    PyObject *result = PyUnicode_FromWideChar(wide, length);
    free(wide); /* CPython's memory: it wants PyMem_Free() */
    return result;
}

static PyMethodDef methods[] = {{"shout", shout, METH_O, "A text in capitals."}, {0}};
static struct PyModuleDef words = {PyModuleDef_HEAD_INIT, .m_name = "words", .m_methods = methods};

PyMODINIT_FUNC PyInit_words(void)
{
    return PyModule_Create(&words);
}
