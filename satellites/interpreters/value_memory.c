/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing: a description is its value's, and the memory is kept in one of three ways.
 *
 *   what a NumPy array owns          the block is shared (hf_python_share()): no interpreter is
 *                                    needed for it any more
 *   memory that came as an argument  its keeper has one more holder
 *   anything else                    its buffer (Py_buffer) is held in the interpreter, which does
 *                                    not end before. The keeper's destructor may run on any thread,
 *                                    so it posts the release to the interpreter
 */
#include "satellites/interpreters/value_memory.h"

#include "satellites/interpreters/memory_object.h"
#include "satellites/interpreters/posts.h"

#include <errno.h>
#include <homefree/alloc.h>
#include <homefree/deleter.h>
#include <homefree/host.h>
#include <string.h>

/* ---- descriptions ---- */

struct hf_memory *hf_memory_describe(const struct hf_memory *memory)
{
    const size_t dimensions = memory->dimensions > 0 ? (size_t)memory->dimensions : 0;
    const size_t numbers = dimensions * sizeof(int64_t);
    const char *format = memory->format != NULL ? memory->format : "B";
    struct hf_memory *copy = hf_calloc(1, sizeof *copy + 2 * numbers + strlen(format) + 1);
    if (copy == NULL)
        return NULL;
    int64_t *shape = (int64_t *)(void *)(copy + 1);
    char *letters = (char *)(shape + 2 * dimensions);
    memcpy(letters, format, strlen(format) + 1);
    *copy = *memory;
    copy->format = letters;
    copy->keeper = NULL;
    if (memory->shape != NULL)
        copy->shape = memcpy(shape, memory->shape, numbers);
    if (memory->strides != NULL)
        copy->strides = memcpy(shape + dimensions, memory->strides, numbers);
    return copy;
}

static struct hf_memory *description_of(const struct hf_py_buffer *buffer)
{
    const struct hf_memory memory = {.pointer = buffer->start,
                                     .bytes = (size_t)buffer->bytes,
                                     .format = buffer->format,
                                     .item_size = (size_t)buffer->item_size,
                                     .dimensions = buffer->dimensions,
                                     .shape = buffer->shape,
                                     .strides = buffer->strides,
                                     .read_only = buffer->read_only != 0};
    return hf_memory_describe(&memory);
}

/* ---- what needs no interpreter ---- */

/* numpy.ndarray, or NULL without an exception if NumPy is not imported. The interpreter holds the
 * reference. */
static struct hf_py_object *array_type(const struct hf_cpython_interpreters *py,
                                       struct hf_interpreter *interpreter)
{
    struct hf_py_object *type = atomic_load(&interpreter->array_type), *none = NULL;
    if (type != NULL)
        return type;
    struct hf_py_object *name = py->cpython->string("numpy");
    struct hf_py_object *numpy = name != NULL ? py->cpython->imported(name) : NULL;
    type = numpy != NULL ? py->cpython->attribute(numpy, "ndarray") : NULL;
    py->cpython->clear_error(); /* a NumPy that is half imported has no arrays yet */
    if (numpy != NULL)
        py->cpython->release(numpy);
    if (name != NULL)
        py->cpython->release(name);
    if (type == NULL || atomic_compare_exchange_strong(&interpreter->array_type, &none, type))
        return type;
    py->cpython->release(type);
    return none;
}

/* The next object in the chain of an array's bases and of views, a new reference. NULL at its end,
 * without an exception. */
static struct hf_py_object *base_of(const struct hf_cpython_interpreters *py,
                                    struct hf_py_object *object, struct hf_py_object *type,
                                    struct hf_py_object *array)
{
    const char *attribute = NULL;
    if (type == py->view_type)
        attribute = "obj";
    else if (array != NULL && py->is_subtype(type, array) != 0)
        attribute = "base";
    struct hf_py_object *base =
        attribute != NULL ? py->cpython->attribute(object, attribute) : NULL;
    py->cpython->clear_error();
    if (base == py->none) {
        py->cpython->release(base);
        return NULL;
    }
    return base;
}

/* A keeper of a buffer's memory that needs no interpreter, or NULL. */
static struct hf_release *keeper_of(const struct hf_cpython_interpreters *py,
                                    struct hf_interpreter *interpreter, struct hf_py_object *object)
{
    struct hf_py_object *array = array_type(py, interpreter), *root = object, *next, *type;
    struct hf_release *keeper = NULL;
    py->take(root);
    type = py->type_of(root);
    while (type != NULL && (next = base_of(py, root, type, array)) != NULL) {
        py->cpython->release(type);
        py->cpython->release(root);
        root = next;
        type = py->type_of(root);
    }
    if (type != NULL && array != NULL && py->is_subtype(type, array) != 0)
        (void)hf_python_share(root, &keeper);
    else if (type != NULL)
        keeper = hf_memory_object_keeper(interpreter, root, type);
    if (type != NULL)
        py->cpython->release(type);
    py->cpython->release(root);
    return keeper;
}

void hf_memory_forget(const struct hf_cpython_interpreters *py, struct hf_interpreter *interpreter)
{
    struct hf_py_object *type = atomic_exchange(&interpreter->array_type, NULL);
    if (type != NULL)
        py->cpython->release(type);
    hf_memory_object_forget(py, interpreter);
}

/* ---- what is held in its interpreter ---- */

struct held {
    const struct hf_cpython_interpreters *py;
    int64_t home;
    struct hf_py_buffer buffer;
};

static void release_at_home(void *argument)
{
    struct held *held = argument;
    held->py->buffer_release(&held->buffer);
    hf_posts_unhold(held->home);
    hf_free(held);
}

/* The last keeper was dropped, on whichever thread. If the interpreter is gone all the same, the
 * buffer is left. */
static int let_go(void *argument)
{
    struct held *held = argument;
    return hf_posts_add(held->home, release_at_home, held);
}

/* Takes the buffer over if it returns 0. */
static int hold(const struct hf_cpython_interpreters *py, const struct hf_interpreter *interpreter,
                const struct hf_py_buffer *buffer, struct hf_release **out)
{
    struct held *held = hf_malloc(sizeof *held);
    if (held == NULL)
        return -ENOMEM;
    *held = (struct held){.py = py, .home = interpreter->id, .buffer = *buffer};
    int error = hf_posts_hold(held->home);
    if (error == 0) {
        /* An empty buffer may have no address, and a deleter needs one: the holder's. */
        error = hf_release_new_attempt(out, held, let_go, "homefree.interpreters");
        if (error != 0)
            hf_posts_unhold(held->home);
    }
    if (error != 0)
        hf_free(held);
    return error;
}

/* ---- results ---- */

/* Whether a buffer's items contain Python's objects, which belong to their interpreter. A format
 * may name fields: "T{i:name:}". */
static bool has_objects(const char *format)
{
    bool in_name = false;
    for (; format != NULL && *format != '\0'; format++) {
        if (*format == ':')
            in_name = !in_name;
        else if (*format == 'O' && !in_name)
            return true;
    }
    return false;
}

int hf_memory_from_object(const struct hf_cpython_interpreters *py,
                          struct hf_interpreter *interpreter, struct hf_py_object *object,
                          struct hf_value *out)
{
    struct hf_py_buffer buffer;
    if (py->buffer_get(object, &buffer, HF_PY_BUFFER_FULL_READ) != 0)
        return -EPROTO;
    const bool has_pointers = buffer.suboffsets != NULL || has_objects(buffer.format);
    struct hf_memory *memory = has_pointers ? NULL : description_of(&buffer);
    int error = memory != NULL ? 0 : has_pointers ? -ENOMSG : -ENOMEM;
    if (error == 0) {
        memory->keeper = keeper_of(py, interpreter, buffer.object);
        if (memory->keeper == NULL)
            error = hold(py, interpreter, &buffer, &memory->keeper);
        else
            py->buffer_release(&buffer);
    }
    if (error == 0) {
        *out = (struct hf_value){.kind = HF_VALUE_MEMORY, .as.memory = memory};
        return 0;
    }
    hf_free(memory);
    py->buffer_release(&buffer);
    return error;
}
