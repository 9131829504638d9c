/*
 * homefree/python/arrow.h - Arrow's PyCapsules. The rules are python.h's. Facts: Arrow's C data
 * interface, its C stream interface and its PyCapsule interface.
 */
#ifndef HOMEFREE_PYTHON_ARROW_H
#define HOMEFREE_PYTHON_ARROW_H

#ifndef HOMEFREE_PYTHON_H
#    error "include homefree/python.h, which includes this"
#endif

/* The structs of Arrow's C data interface under names of our own, laid out as it says. */
struct hf_arrow_schema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct hf_arrow_schema **children, *dictionary;
    void (*release)(struct hf_arrow_schema *self);
    void *private_data;
};

struct hf_arrow_array {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct hf_arrow_array **children, *dictionary;
    void (*release)(struct hf_arrow_array *self);
    void *private_data;
};

struct hf_arrow_stream {
    int (*get_schema)(struct hf_arrow_stream *self, struct hf_arrow_schema *out);
    int (*get_next)(struct hf_arrow_stream *self, struct hf_arrow_array *out);
    const char *(*get_last_error)(struct hf_arrow_stream *self);
    void (*release)(struct hf_arrow_stream *self);
    void *private_data;
};

static inline void hf_py_arrow_schema_destroy(void *pointer)
{
    struct hf_arrow_schema *schema = HF_PY_CAST(struct hf_arrow_schema *, pointer);
    if (schema->release != NULL)
        schema->release(schema);
    hf_free(schema);
}

static inline void hf_py_arrow_array_destroy(void *pointer)
{
    struct hf_arrow_array *array = HF_PY_CAST(struct hf_arrow_array *, pointer);
    if (array->release != NULL)
        array->release(array);
    hf_free(array);
}

static inline void hf_py_arrow_stream_destroy(void *pointer)
{
    struct hf_arrow_stream *stream = HF_PY_CAST(struct hf_arrow_stream *, pointer);
    if (stream->release != NULL)
        stream->release(stream);
    hf_free(stream);
}

/*
 * The capsules that __arrow_c_schema__, __arrow_c_array__ and __arrow_c_stream__ return. When one
 * goes, release is called if a consumer has not moved it away (set it to NULL), and the struct,
 * anybody's block, is freed with hf_free(). release must not call Python.
 * Result: a new reference, and then the struct is the capsule's; NULL with an exception.
 */
static inline PyObject *hf_arrow_schema_new(struct hf_arrow_schema *schema)
{
    return hf_capsule_new(schema, "arrow_schema", hf_py_arrow_schema_destroy);
}

static inline PyObject *hf_arrow_array_new(struct hf_arrow_array *array)
{
    return hf_capsule_new(array, "arrow_array", hf_py_arrow_array_destroy);
}

static inline PyObject *hf_arrow_stream_new(struct hf_arrow_stream *stream)
{
    return hf_capsule_new(stream, "arrow_array_stream", hf_py_arrow_stream_destroy);
}

#endif
