/* What importing any extension costs: import_install.py's peer. */
#define Py_LIMITED_API 0x03090000
#include <Python.h>

static PyModuleDef_Slot slots[] = {{0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "empty", .m_size = 0,
                                    .m_slots = slots};

PyMODINIT_FUNC PyInit_empty(void);
PyMODINIT_FUNC PyInit_empty(void)
{
    return PyModuleDef_Init(&module);
}
