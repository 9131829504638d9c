/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/python/arrow.h - Arrow's PyCapsules.
 *
 * The rules are those of homefree/python.h.
 */
#ifndef HOMEFREE_PYTHON_ARROW_H
#define HOMEFREE_PYTHON_ARROW_H

#include <homefree/python/capsule.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The structs of Arrow's C data interface and C stream interface, with the same layout under names
 * of our own. */
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
 * Makes the capsules that __arrow_c_schema__, __arrow_c_array__ and __arrow_c_stream__ return.
 *
 * A capsule that is destroyed calls the struct's release function, unless a consumer has moved the
 * contents away and set it to NULL, and frees the struct with hf_free(). release must not call
 * Python.
 *
 * Parameters:
 *   schema  in: a block of any allocator
 *   array   in: a block of any allocator
 *   stream  in: a block of any allocator
 * Result: a new reference; NULL with an exception set.
 * Errors:
 *   ValueError   the struct is NULL
 *   MemoryError  there is no memory
 * Frees: on success the capsule owns the struct. On error the caller still owns it.
 * Threads: attached.
 * Fork: safe.
 * Signals: unsafe.
 * Source: Arrow's C data interface, C stream interface and PyCapsule interface.
 * Since: 1.0
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

#ifdef __cplusplus
}
#endif
#endif
