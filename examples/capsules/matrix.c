/* A module that computes into memory of its own, and hands that to NumPy and torch without a copy.
 */
#include <Python.h>
#include <homefree/python.h>

#define ELEMENTS(rows, columns) ((size_t)(rows) * (size_t)(columns))

/* A multiplication table: a new matrix on the heap, and the record that will free it. */
static struct hf_release *table(Py_ssize_t rows, Py_ssize_t columns)
{
    double *matrix = hf_malloc(ELEMENTS(rows, columns) * sizeof *matrix);
    for (Py_ssize_t i = 0; matrix != NULL && i < rows * columns; i++)
        matrix[i] = (double)((i / columns + 1) * (i % columns + 1));
    struct hf_release *memory = hf_python_record(matrix, "matrix", hf_free);
    if (memory == NULL)
        hf_free(matrix);
    return memory;
}

/* A matrix of the shape (rows, columns) that Python asked for; NULL with an exception. */
static struct hf_release *matrix_of(PyObject *arguments, Py_ssize_t shape[2])
{
    if (!PyArg_ParseTuple(arguments, "nn", &shape[0], &shape[1]))
        return NULL;
    if (shape[0] > 0 && shape[1] > 0 && shape[0] <= 10000 && shape[1] <= 10000)
        return table(shape[0], shape[1]);
    PyErr_SetString(PyExc_ValueError, "rows and columns are 1 to 10000");
    return NULL;
}

/* array(rows, columns): for NumPy, through the buffer protocol. */
static PyObject *array(PyObject *module, PyObject *arguments)
{
    (void)module;
    Py_ssize_t shape[2];
    struct hf_release *memory = matrix_of(arguments, shape);
    if (memory == NULL)
        return NULL;
    struct hf_buffer_layout layout = {
        .format = "d", .itemsize = sizeof(double), .ndim = 2, .shape = shape};
    PyObject *result = hf_numpy_array(memory, hf_release_pointer(memory), &layout);
    hf_release_drop(memory); /* the array holds on */
    return result;
}

/* dlpack(rows, columns): a capsule for torch.utils.dlpack.from_dlpack. */
static PyObject *dlpack(PyObject *module, PyObject *arguments)
{
    (void)module;
    Py_ssize_t shape[2];
    struct hf_release *memory = matrix_of(arguments, shape);
    if (memory == NULL)
        return NULL;
    int64_t lengths[2] = {shape[0], shape[1]};
    struct hf_dl_tensor tensor = {
        .data = hf_release_pointer(memory),
        .device = {HF_DL_CPU, 0},
        .ndim = 2,
        .dtype = {HF_DL_FLOAT, 64, 1},
        .shape = lengths,
    };
    PyObject *result = hf_dlpack_new(memory, &tensor);
    hf_release_drop(memory);
    return result;
}

/* owned(address): whether the memory there is the heap's. */
static PyObject *owned(PyObject *module, PyObject *address)
{
    (void)module;
    void *pointer = PyLong_AsVoidPtr(address);
    return PyErr_Occurred() != NULL ? NULL : PyBool_FromLong(hf_owns(pointer));
}

/* live(): how many matrices are still somebody's. */
static PyObject *live(PyObject *module, PyObject *arguments)
{
    (void)module, (void)arguments;
    struct hf_stats stats = {.size = sizeof stats};
    hf_stats(&stats);
    return PyLong_FromUnsignedLongLong(stats.releases_live);
}

static PyMethodDef methods[] = {
    {"array", array, METH_VARARGS, "array(rows, columns): a matrix as a NumPy array"},
    {"dlpack", dlpack, METH_VARARGS, "dlpack(rows, columns): a matrix as a DLPack capsule"},
    {"owned", owned, METH_O, "owned(address): whether the heap owns the memory there"},
    {"live", live, METH_NOARGS, "live(): matrices that are still somebody's"},
    {NULL, NULL, 0, NULL},
};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "matrix", .m_size = -1,
                                 .m_methods = methods};

PyMODINIT_FUNC PyInit_matrix(void)
{
    return PyModule_Create(&definition);
}
