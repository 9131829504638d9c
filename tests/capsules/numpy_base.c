/* A capsule's record as the base of an array made with NumPy's C API. python.h comes before and
 * after NumPy's header: the part for NumPy appears with the second. */
#include <Python.h>
#include <homefree/python.h>

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>

#include <homefree/python.h>

/* array(capsule, how): an array of 6 doubles. how: 0 plain, 1 over an array that owns its data, 2
 * twice. */
static PyObject *array(PyObject *self, PyObject *args)
{
    PyObject *capsule, *made;
    struct hf_release *memory;
    npy_intp shape[1] = {6};
    int how, result;
    (void)self;
    if (!PyArg_ParseTuple(args, "Oi", &capsule, &how))
        return NULL;
    memory = hf_capsule_record(capsule);
    if (memory == NULL)
        return NULL;
    made = how == 1 ? PyArray_SimpleNew(1, shape, NPY_DOUBLE)
                    : PyArray_SimpleNewFromData(1, shape, NPY_DOUBLE, hf_release_pointer(memory));
    if (made == NULL)
        return NULL;
    result = hf_numpy_own((PyArrayObject *)made, memory);
    if (result == 0 && how == 2)
        result = hf_numpy_own((PyArrayObject *)made, memory);
    if (result != 0)
        Py_CLEAR(made);
    return made;
}

static PyMethodDef methods[] = {{"array", array, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "owns", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_owns(void);
PyMODINIT_FUNC PyInit_owns(void)
{
    import_array();
    return PyModule_Create(&definition);
}
