/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/python/dlpack.h>, as alloc/manual/pages.py takes them. */
#include <Python.h>
#include <homefree/python.h>

#include <assert.h>

/* A matrix of C's as a tensor of any consumer's. */
static struct hf_release *matrix(struct hf_dl_tensor *tensor, int64_t shape[2])
{
    double *numbers = hf_calloc((size_t)(shape[0] * shape[1]), sizeof *numbers);
    struct hf_release *memory = hf_python_record(numbers, "matrix", hf_free);
    if (memory == NULL)
        hf_free(numbers);
    *tensor = (struct hf_dl_tensor){.data = numbers,
                                    .device = {HF_DL_CPU, 0},
                                    .ndim = 2,
                                    .dtype = {HF_DL_FLOAT, 64, 1},
                                    .shape = shape};
    return memory;
}

static PyObject *export_matrix(int64_t rows, int64_t columns, PyObject *max_version)
{
    struct hf_dl_tensor tensor;
    int64_t shape[] = {rows, columns};
    struct hf_release *memory = matrix(&tensor, shape);
    if (memory == NULL)
        return NULL;
    PyObject *capsule = hf_dlpack_export(memory, &tensor, 0, max_version);
    hf_release_drop(memory); /* the tensor holds on */
    return capsule;
}

/* The version chosen by hand: 1.0 can say that nobody must write. */
static PyObject *plain(struct hf_release *memory, const struct hf_dl_tensor *tensor)
{
    return hf_dlpack_new(memory, tensor);
}

static PyObject *read_only(struct hf_release *memory, const struct hf_dl_tensor *tensor)
{
    return hf_dlpack_new_versioned(memory, tensor, HF_DL_READ_ONLY);
}

/* The first number of a tensor of doubles in the memory of the host, of any library. */
static double first_of(struct hf_release *memory, const struct hf_dl_tensor *tensor)
{
    double first = 0;
    if (tensor->device.type == HF_DL_CPU && tensor->dtype.code == HF_DL_FLOAT &&
        tensor->dtype.bits == 64)
        first = *(const double *)((const char *)tensor->data + tensor->byte_offset);
    hf_python_drop(memory); /* the producer may free it now */
    return first;
}

static double first_of_object(PyObject *object)
{
    struct hf_dl_tensor *tensor;
    struct hf_release *memory = hf_dlpack_import(object, NULL, &tensor, NULL);
    return memory != NULL ? first_of(memory, tensor) : -1; /* an exception is set */
}

static double first_of_capsule(PyObject *capsule)
{
    struct hf_dl_tensor *tensor;
    uint64_t flags;
    struct hf_release *memory = hf_dlpack_consume(capsule, &tensor, &flags);
    return memory != NULL ? first_of(memory, tensor) : -1;
}

static uint64_t live(void)
{
    struct hf_stats stats = {.size = sizeof stats};
    hf_stats(&stats);
    return stats.releases_live;
}

/* An object of Python's that has a capsule. */
static PyObject *producer(PyObject *capsule)
{
    PyObject *names = Py_BuildValue("{sO}", "capsule", capsule);
    PyObject *done = PyRun_String("class Producer:\n"
                                  "    def __dlpack_device__(self): return (1, 0)\n"
                                  "    def __dlpack__(self, **asked): return capsule\n"
                                  "producer = Producer()\n",
                                  Py_file_input, names, names);
    assert(done != NULL);
    Py_DECREF(done);
    PyObject *made = PyDict_GetItemString(names, "producer");
    Py_INCREF(made);
    Py_DECREF(names);
    return made;
}

int main(void)
{
    Py_Initialize();
    PyObject *version = Py_BuildValue("(ii)", 1, 0);
    PyObject *capsule = export_matrix(2, 3, version);
    assert(capsule != NULL && PyCapsule_IsValid(capsule, "dltensor_versioned"));
    PyObject *object = producer(capsule);
    assert(first_of_object(object) == 0 && PyErr_Occurred() == NULL);
    assert(PyCapsule_IsValid(capsule, "used_dltensor_versioned"));
    Py_DECREF(capsule);

    struct hf_dl_tensor tensor;
    int64_t shape[] = {1, 1};
    struct hf_release *memory = matrix(&tensor, shape);
    assert(memory != NULL);
    *(double *)tensor.data = 7;
    PyObject *capsules[] = {plain(memory, &tensor), read_only(memory, &tensor)};
    hf_release_drop(memory);
    for (int i = 0; i < 2; i++) {
        assert(capsules[i] != NULL && first_of_capsule(capsules[i]) == 7);
        Py_DECREF(capsules[i]);
    }
    assert(live() == 0);
    return Py_FinalizeEx() == 0 ? 0 : 1;
}
