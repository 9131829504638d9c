/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/python/arrow.h>, as alloc/manual/pages.py takes them. */
#include <Python.h>
#include <homefree/python.h>

#include <assert.h>
#include <errno.h>

/* A column of 64-bit integers, for __arrow_c_array__(): a tuple of its type and its numbers. */
static void free_schema(struct hf_arrow_schema *schema)
{
    schema->release = NULL;
}

static void free_array(struct hf_arrow_array *array)
{
    hf_free(array->private_data);
    hf_free(array->buffers);
    array->release = NULL;
}

static int fill(struct hf_arrow_schema *schema, struct hf_arrow_array *array, int64_t length)
{
    const void **buffers = hf_calloc(2, sizeof *buffers); /* no nulls, and the numbers */
    int64_t *numbers = hf_malloc((size_t)length * sizeof *numbers);
    if (buffers == NULL || numbers == NULL) {
        hf_free(buffers);
        hf_free(numbers);
        return -ENOMEM;
    }
    for (int64_t i = 0; i < length; i++)
        numbers[i] = i;
    buffers[1] = numbers;
    *schema = (struct hf_arrow_schema){.format = "l", .name = "", .release = free_schema};
    *array = (struct hf_arrow_array){.length = length,
                                     .n_buffers = 2,
                                     .buffers = buffers,
                                     .release = free_array,
                                     .private_data = numbers};
    return 0;
}

static PyObject *column(int64_t length)
{
    struct hf_arrow_schema *schema = hf_calloc(1, sizeof *schema);
    struct hf_arrow_array *array = hf_calloc(1, sizeof *array);
    if (schema == NULL || array == NULL || fill(schema, array, length) != 0) {
        hf_free(schema);
        hf_free(array);
        return PyErr_NoMemory();
    }
    PyObject *type = hf_arrow_schema_new(schema), *numbers = hf_arrow_array_new(array);
    return type != NULL && numbers != NULL ? Py_BuildValue("(NN)", type, numbers) : NULL;
}

/* Columns one after the other, for __arrow_c_stream__(): here three, and then the end. */
static int stream_schema(struct hf_arrow_stream *stream, struct hf_arrow_schema *out)
{
    (void)stream;
    *out = (struct hf_arrow_schema){.format = "l", .name = "", .release = free_schema};
    return 0;
}

static int stream_next(struct hf_arrow_stream *stream, struct hf_arrow_array *out)
{
    int *left = stream->private_data;
    struct hf_arrow_schema schema;
    *out = (struct hf_arrow_array){0}; /* the end has no release function */
    return *left == 0 ? 0 : (--*left, -fill(&schema, out, 100));
}

static const char *stream_error(struct hf_arrow_stream *stream)
{
    (void)stream;
    return NULL;
}

static void free_stream(struct hf_arrow_stream *stream)
{
    hf_free(stream->private_data);
    stream->release = NULL;
}

static PyObject *columns(void)
{
    struct hf_arrow_stream *stream = hf_malloc(sizeof *stream);
    int *left = hf_malloc(sizeof *left);
    if (stream == NULL || left == NULL) {
        hf_free(stream);
        hf_free(left);
        return PyErr_NoMemory();
    }
    *left = 3;
    *stream = (struct hf_arrow_stream){.get_schema = stream_schema,
                                       .get_next = stream_next,
                                       .get_last_error = stream_error,
                                       .release = free_stream,
                                       .private_data = left};
    return hf_arrow_stream_new(stream);
}

int main(void)
{
    Py_Initialize();
    PyObject *pair = column(100);
    assert(pair != NULL);
    struct hf_arrow_array *array = PyCapsule_GetPointer(PyTuple_GetItem(pair, 1), "arrow_array");
    assert(array != NULL && array->length == 100);
    Py_DECREF(pair);

    PyObject *capsule = columns();
    assert(capsule != NULL);
    struct hf_arrow_stream *stream = PyCapsule_GetPointer(capsule, "arrow_array_stream");
    int64_t numbers = 0;
    for (struct hf_arrow_array next;;) {
        int error = stream->get_next(stream, &next);
        assert(error == 0);
        if (next.release == NULL)
            break;
        numbers += next.length;
        next.release(&next);
    }
    assert(numbers == 300);
    Py_DECREF(capsule);
    struct hf_stats stats = {.size = sizeof stats};
    hf_stats(&stats);
    assert(stats.releases_live == 0);
    return Py_FinalizeEx() == 0 ? 0 : 1;
}
