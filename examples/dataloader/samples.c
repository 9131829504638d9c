/* Makes samples for a dataset, and consumes batches of them. */
#include <Python.h>
#include <homefree/python.h>
#include <stdlib.h>

/* sample(index, size): a DLPack capsule of float32, in memory of this module; whoever takes it
 * frees it. */
static PyObject *sample(PyObject *module, PyObject *arguments)
{
    (void)module;
    Py_ssize_t index, size;
    if (!PyArg_ParseTuple(arguments, "nn", &index, &size))
        return NULL;
    if (size < 1 || size > 1 << 20)
        return PyErr_Format(PyExc_ValueError, "size is 1 to %d, not %zd", 1 << 20, size);
    float *values = malloc((size_t)size * sizeof *values);
    for (Py_ssize_t i = 0; values != NULL && i < size; i++)
        values[i] = (float)index;
    struct hf_release *memory = values != NULL ? hf_python_record(values, "sample", free) : NULL;
    if (memory == NULL) {
        free(values);
        return PyErr_Occurred() != NULL ? NULL : PyErr_NoMemory();
    }
    struct hf_dl_tensor tensor = {.data = values,
                                  .device = {HF_DL_CPU, 0},
                                  .ndim = 1,
                                  .dtype = {HF_DL_FLOAT, 32, 1},
                                  .shape = (int64_t[]){size}};
    PyObject *capsule = hf_dlpack_new(memory, &tensor);
    hf_release_drop(memory);
    return capsule;
}

static bool is_known(const struct hf_dl_tensor *tensor)
{
    int64_t step = 1;
    for (int32_t i = tensor->ndim - 1; i >= 0; step *= tensor->shape[i--])
        if (tensor->strides != NULL && tensor->shape[i] != 1 && tensor->strides[i] != step)
            return false;
    return tensor->dtype.code == HF_DL_FLOAT && tensor->dtype.bits == 32 &&
           tensor->dtype.lanes == 1 && tensor->device.type == HF_DL_CPU;
}

static double sum_of(const struct hf_dl_tensor *tensor)
{
    const float *values = (const float *)((const char *)tensor->data + tensor->byte_offset);
    int64_t count = 1;
    double sum = 0;
    for (int32_t i = 0; i < tensor->ndim; i++)
        count *= tensor->shape[i];
    for (int64_t i = 0; i < count; i++)
        sum += values[i];
    return sum;
}

/* consume(capsule): the sum of a row-major float32 tensor, whose memory is let go of here: on the
 * calling thread, while others run Python. */
static PyObject *consume(PyObject *module, PyObject *capsule)
{
    (void)module;
    struct hf_dl_tensor *tensor;
    struct hf_release *memory = hf_dlpack_consume(capsule, &tensor, NULL);
    if (memory == NULL)
        return NULL;
    if (!is_known(tensor)) {
        hf_python_drop(memory);
        PyErr_SetString(PyExc_TypeError, "consume() takes row-major float32 tensors of the CPU");
        return NULL;
    }
    PyThreadState *thread = PyEval_SaveThread();
    double sum = sum_of(tensor);
    hf_release_drop(memory);
    PyEval_RestoreThread(thread);
    return PyFloat_FromDouble(sum);
}

static PyMethodDef methods[] = {
    {"sample", sample, METH_VARARGS, "sample(index, size): a DLPack capsule of float32"},
    {"consume", consume, METH_O, "consume(capsule): the sum of a tensor, which is freed"},
    {NULL, NULL, 0, NULL},
};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "samples", .m_size = -1,
                                 .m_methods = methods};

PyMODINIT_FUNC HF_MODULE_INIT(void)
{
    return PyModule_Create(&definition);
}
