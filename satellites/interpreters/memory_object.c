/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing: an object has its own copy of the description and one reference to the keeper, and
 * an interpreter its own type.
 *
 * An object is CPython's header, whose size the type `object` tells, and behind it the address of
 * the description.
 */
#include "satellites/interpreters/memory_object.h"

#include <homefree/alloc.h>
#include <homefree/deleter.h>
#include <string.h>

#define DIMENSIONS_MAX 64 /* PyBUF_MAX_NDIM */

struct shown {
    struct hf_memory memory;
    char *format;
    ssize_t item_size;
    bool is_in_rows; /* row by row without gaps */
    ssize_t numbers[];
};

static _Atomic(ssize_t) header_size;

static struct shown **shown_of(struct hf_py_object *object)
{
    return (struct shown **)(void *)((char *)object + header_size);
}

static ssize_t *shape_of(struct shown *shown)
{
    return shown->numbers;
}

static ssize_t *strides_of(struct shown *shown)
{
    return shown->numbers + shown->memory.dimensions;
}

static int refuse(const struct hf_cpython_interpreters *py, struct hf_py_buffer *out,
                  const char *text)
{
    out->object = NULL;
    py->error_set_text(*py->buffer_error, text);
    return -1;
}

static int get(struct hf_py_object *self, struct hf_py_buffer *out, int flags)
{
    const struct hf_cpython_interpreters *py = hf_cpython_interpreters();
    struct shown *shown = *shown_of(self);
    const int columns = HF_PY_BUFFER_F & ~HF_PY_BUFFER_C;
    const bool wants_strides = (flags & HF_PY_BUFFER_STRIDES) == HF_PY_BUFFER_STRIDES;
    if ((flags & HF_PY_BUFFER_WRITABLE) != 0 && shown->memory.read_only)
        return refuse(py, out, "this memory is read-only");
    if (!shown->is_in_rows &&
        (!wants_strides || (flags & HF_PY_BUFFER_C & ~HF_PY_BUFFER_STRIDES) != 0))
        return refuse(py, out, "this memory has gaps, or is not stored row by row");
    if ((flags & columns) != 0 && shown->memory.dimensions > 1)
        return refuse(py, out, "this memory is not stored column by column");
    *out = (struct hf_py_buffer){
        .start = shown->memory.pointer,
        .object = self,
        .bytes = (ssize_t)shown->memory.bytes,
        .item_size = shown->item_size,
        .read_only = shown->memory.read_only,
        .dimensions = shown->memory.dimensions,
        .format = (flags & HF_PY_BUFFER_FORMAT) != 0 ? shown->format : NULL,
        .shape = (flags & HF_PY_BUFFER_ND) != 0 ? shape_of(shown) : NULL,
        .strides = wants_strides ? strides_of(shown) : NULL,
    };
    py->take(self);
    return 0;
}

static void dealloc(struct hf_py_object *self)
{
    const struct hf_cpython_interpreters *py = hf_cpython_interpreters();
    struct shown *shown = *shown_of(self);
    struct hf_py_object *type = py->type_of(self);
    if (shown != NULL && shown->memory.keeper != NULL)
        hf_release_drop(shown->memory.keeper);
    hf_free(shown);
    py->cpython->object_free(self);
    py->cpython->release(type);
    py->cpython->release(type); /* the object's own reference */
}

static struct hf_py_object *new_type(const struct hf_cpython_interpreters *py)
{
    struct hf_py_type_slot slots[] = {
        {HF_PY_BUFFER_GET, (void *)get}, {HF_PY_DEALLOC, (void *)dealloc}, {0, NULL}};
    struct hf_py_object *size = py->cpython->attribute(py->object_type, "__basicsize__");
    int overflow = 0;
    const long long bytes = size != NULL ? py->int_read(size, &overflow) : 0;
    if (size == NULL)
        return NULL;
    py->cpython->release(size);
    header_size = (ssize_t)bytes;
    struct hf_py_type_spec spec = {.name = "homefree.Memory",
                                   .basic_size = (int)bytes + (int)sizeof(struct shown *),
                                   .slots = slots};
    return py->type_from_spec(&spec);
}

static struct hf_py_object *type_in(const struct hf_cpython_interpreters *py,
                                    struct hf_interpreter *interpreter)
{
    struct hf_py_object *type = atomic_load(&interpreter->memory_type), *none = NULL;
    if (type != NULL)
        return type;
    type = new_type(py);
    if (type == NULL || atomic_compare_exchange_strong(&interpreter->memory_type, &none, type))
        return type;
    py->cpython->release(type);
    return none;
}

struct hf_release *hf_memory_object_keeper(struct hf_interpreter *interpreter,
                                           struct hf_py_object *object,
                                           const struct hf_py_object *type)
{
    if (type == NULL || type != atomic_load(&interpreter->memory_type))
        return NULL;
    const struct shown *shown = *shown_of(object);
    if (shown == NULL || shown->memory.keeper == NULL)
        return NULL;
    hf_release_take(shown->memory.keeper);
    return shown->memory.keeper;
}

void hf_memory_object_forget(const struct hf_cpython_interpreters *py,
                             struct hf_interpreter *interpreter)
{
    struct hf_py_object *type = atomic_exchange(&interpreter->memory_type, NULL);
    if (type != NULL)
        py->cpython->release(type);
}

/* Copies a description; NULL if there is no memory or it makes no sense. */
static struct shown *describe(const struct hf_memory *memory)
{
    const int dimensions = memory->dimensions > 0 ? memory->dimensions : 1;
    const char *format = memory->format != NULL ? memory->format : "B";
    if (dimensions > DIMENSIONS_MAX || (memory->dimensions > 0 && memory->shape == NULL))
        return NULL;
    const size_t numbers = 2 * (size_t)dimensions * sizeof(ssize_t);
    struct shown *shown = hf_calloc(1, sizeof *shown + numbers + strlen(format) + 1);
    if (shown == NULL)
        return NULL;
    shown->memory = *memory;
    shown->memory.dimensions = dimensions;
    shown->item_size = memory->item_size != 0 ? (ssize_t)memory->item_size : 1;
    shown->format = (char *)shown->numbers + numbers;
    memcpy(shown->format, format, strlen(format) + 1);
    shown->is_in_rows = true;
    ssize_t gapless = shown->item_size;
    for (int i = dimensions; i-- > 0;) {
        shape_of(shown)[i] = memory->dimensions > 0 ? (ssize_t)memory->shape[i]
                                                    : (ssize_t)memory->bytes / shown->item_size;
        strides_of(shown)[i] = memory->dimensions > 0 && memory->strides != NULL
                                   ? (ssize_t)memory->strides[i]
                                   : gapless;
        if (shape_of(shown)[i] != 1 && strides_of(shown)[i] != gapless)
            shown->is_in_rows = false;
        gapless *= shape_of(shown)[i];
    }
    return shown;
}

struct hf_py_object *hf_memory_object_new(const struct hf_cpython_interpreters *py,
                                          struct hf_interpreter *interpreter,
                                          const struct hf_memory *memory)
{
    struct hf_py_object *type = type_in(py, interpreter);
    struct shown *shown = type != NULL ? describe(memory) : NULL;
    if (type != NULL && shown == NULL)
        py->error_set_text(*py->buffer_error, "the description of the memory is invalid");
    struct hf_py_object *object = shown != NULL ? py->object_new(type, 0) : NULL;
    if (object == NULL) {
        hf_free(shown);
        return NULL;
    }
    if (memory->keeper != NULL)
        hf_release_take(memory->keeper);
    *shown_of(object) = shown;
    struct hf_py_object *view = py->memory_view(object);
    py->cpython->release(object);
    return view;
}
