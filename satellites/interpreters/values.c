/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing: what a value points to is the value's, each part in a block of the heap. What keeps
 * memory is in value_memory.c.
 */
#include "satellites/interpreters/values.h"

#include "satellites/interpreters/memory_object.h"
#include "satellites/interpreters/value_memory.h"

#include <errno.h>
#include <homefree/alloc.h>
#include <homefree/deleter.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX   64
#define NESTED_MANY (1 << 20) /* values in lists within a result, from which on lists are noted */
#define AGAIN_MAX   (1 << 22) /* values of lists that were there before */

static void release(const struct hf_cpython_interpreters *py, struct hf_py_object *object)
{
    if (object != NULL)
        py->cpython->release(object);
}

/* ---- freeing ---- */

static bool has_items(enum hf_value_kind kind)
{
    return kind == HF_VALUE_LIST || kind == HF_VALUE_TUPLE || kind == HF_VALUE_PICKLE;
}

void hf_value_free(struct hf_value *value)
{
    if (value == NULL)
        return;
    if (has_items(value->kind)) {
        for (size_t i = 0; i < value->count; i++)
            hf_value_free(&value->as.items[i]);
        hf_free(value->as.items);
    } else if (value->kind == HF_VALUE_TEXT || value->kind == HF_VALUE_BYTES)
        hf_free((void *)(uintptr_t)value->as.bytes);
    else if (value->kind == HF_VALUE_ERROR)
        hf_free(value->as.error);
    else if (value->kind == HF_VALUE_MEMORY) {
        if (value->as.memory->keeper != NULL)
            hf_release_drop(value->as.memory->keeper);
        hf_free(value->as.memory);
    }
    *value = (struct hf_value){.kind = HF_VALUE_NONE};
}

/* ---- copying ---- */

static int copy_bytes(struct hf_value *out, enum hf_value_kind kind, const char *bytes,
                      ssize_t count)
{
    char *copy = hf_malloc((size_t)count + 1);
    if (copy == NULL)
        return -ENOMEM;
    if (count > 0)
        memcpy(copy, bytes, (size_t)count);
    copy[count] = '\0';
    *out = (struct hf_value){.kind = kind, .count = (size_t)count, .as.text = copy};
    return 0;
}

static int copy_items(const struct hf_value *value, struct hf_value *out)
{
    struct hf_value *items = hf_calloc(value->count + 1, sizeof *items);
    int error = items != NULL ? 0 : -ENOMEM;
    *out = (struct hf_value){.kind = value->kind, .as.items = items};
    for (size_t i = 0; error == 0 && i < value->count; i++) {
        error = hf_value_copy(&value->as.items[i], &items[i]);
        out->count += error == 0;
    }
    if (error != 0)
        hf_value_free(out);
    return error;
}

static int copy_memory(const struct hf_memory *memory, struct hf_value *out)
{
    struct hf_memory *copy = hf_memory_describe(memory);
    if (copy == NULL)
        return -ENOMEM;
    copy->keeper = memory->keeper;
    if (copy->keeper != NULL)
        hf_release_take(copy->keeper);
    *out = (struct hf_value){.kind = HF_VALUE_MEMORY, .as.memory = copy};
    return 0;
}

int hf_value_copy(const struct hf_value *value, struct hf_value *out)
{
    *out = (struct hf_value){.kind = HF_VALUE_NONE};
    if (has_items(value->kind))
        return copy_items(value, out);
    if (value->kind == HF_VALUE_MEMORY)
        return copy_memory(value->as.memory, out);
    if (value->kind != HF_VALUE_TEXT && value->kind != HF_VALUE_BYTES) {
        *out = *value;
        return 0;
    }
    const bool is_line =
        value->kind == HF_VALUE_TEXT && value->count == 0 && value->as.text != NULL;
    const size_t count = is_line ? strlen(value->as.text) : value->count;
    return copy_bytes(out, value->kind, value->as.text, (ssize_t)count);
}

/* ---- to Python ---- */

static bool may_be(const struct hf_value *value, int depth)
{
    if (depth > DEPTH_MAX || (unsigned)value->kind > HF_VALUE_PICKLE)
        return false;
    if ((value->kind == HF_VALUE_TEXT || value->kind == HF_VALUE_BYTES) && value->count > 0)
        return value->as.bytes != NULL;
    if (value->kind == HF_VALUE_MEMORY)
        return value->as.memory != NULL &&
               (value->as.memory->pointer != NULL || value->as.memory->bytes == 0);
    if (!has_items(value->kind))
        return true;
    if (value->kind == HF_VALUE_PICKLE &&
        (value->count == 0 || value->as.items[0].kind != HF_VALUE_BYTES))
        return false;
    for (size_t i = 0; i < value->count; i++)
        if (!may_be(&value->as.items[i], depth + 1))
            return false;
    return true;
}

bool hf_value_is_argument(const struct hf_value *value)
{
    return may_be(value, 0);
}

static struct hf_py_object *to_tuple(const struct hf_cpython_interpreters *py,
                                     struct hf_interpreter *interpreter,
                                     const struct hf_value *items, size_t count)
{
    struct hf_py_object *tuple = py->tuple_new((ssize_t)count);
    for (size_t i = 0; tuple != NULL && i < count; i++) {
        struct hf_py_object *item = hf_value_to_object(py, interpreter, &items[i]);
        if (item == NULL || py->tuple_set(tuple, (ssize_t)i, item) != 0) {
            release(py, tuple);
            return NULL;
        }
    }
    return tuple;
}

static struct hf_py_object *to_list(const struct hf_cpython_interpreters *py,
                                    struct hf_interpreter *interpreter,
                                    const struct hf_value *items, size_t count)
{
    struct hf_py_object *list = py->list_new(0);
    for (size_t i = 0; list != NULL && i < count; i++) {
        struct hf_py_object *item = hf_value_to_object(py, interpreter, &items[i]);
        const bool done = item != NULL && py->list_append(list, item) == 0;
        release(py, item);
        if (!done) {
            release(py, list);
            return NULL;
        }
    }
    return list;
}

/* A function of the package, or of `pickle` where the package is not there. */
static struct hf_py_object *function_of(const struct hf_cpython_interpreters *py,
                                        const char *crossing, const char *pickling)
{
    struct hf_py_object *module = py->import("homefree.interpreters._crossing");
    const char *name = crossing;
    if (module == NULL) {
        py->cpython->clear_error();
        module = py->import("pickle");
        name = pickling;
    }
    struct hf_py_object *function = module != NULL ? py->cpython->attribute(module, name) : NULL;
    release(py, module);
    return function;
}

static struct hf_py_object *unpickle(const struct hf_cpython_interpreters *py,
                                     struct hf_interpreter *interpreter,
                                     const struct hf_value *value)
{
    struct hf_py_object *pickled = hf_value_to_object(py, interpreter, &value->as.items[0]);
    struct hf_py_object *buffers = to_list(py, interpreter, value->as.items + 1, value->count - 1);
    struct hf_py_object *function = function_of(py, "unpack", "loads"), *result = NULL;
    if (pickled != NULL && buffers != NULL && function != NULL)
        result = value->count > 1 ? py->call_with(function, pickled, buffers, NULL)
                                  : py->call_with(function, pickled, NULL);
    release(py, function);
    release(py, buffers);
    release(py, pickled);
    return result;
}

struct hf_py_object *hf_value_to_object(const struct hf_cpython_interpreters *py,
                                        struct hf_interpreter *interpreter,
                                        const struct hf_value *value)
{
    switch (value->kind) {
    case HF_VALUE_NONE:
        py->take(py->none);
        return py->none;
    case HF_VALUE_BOOL:
        return py->bool_new(value->as.truth);
    case HF_VALUE_INT:
        return py->int_new(value->as.integer);
    case HF_VALUE_FLOAT:
        return py->float_new(value->as.real);
    case HF_VALUE_TEXT:
        if (value->count == 0)
            return py->cpython->string(value->as.text != NULL ? value->as.text : "");
        return py->text_new(value->as.text, (ssize_t)value->count);
    case HF_VALUE_BYTES:
        return py->bytes_new(value->as.bytes, (ssize_t)value->count);
    case HF_VALUE_LIST:
        return to_list(py, interpreter, value->as.items, value->count);
    case HF_VALUE_TUPLE:
        return to_tuple(py, interpreter, value->as.items, value->count);
    case HF_VALUE_MEMORY:
        return hf_memory_object_new(py, interpreter, value->as.memory);
    case HF_VALUE_PICKLE:
        return unpickle(py, interpreter, value);
    case HF_VALUE_ERROR:
        break;
    }
    return NULL; /* hf_value_is_argument() has excluded it */
}

/* ---- lists that are in several places ---- */

/* A list that holds the same list twice, and so on, has few objects and no end of values. So a
 * large result's lists are noted: once too many values come from lists that were converted before,
 * or a list lies too deep, the whole result becomes a pickle, which has each object once. */
struct nested {
    size_t values, again;
    struct hf_py_object **noted; /* by a hash of the address; NULL: no entry */
    size_t count, capacity;      /* capacity is 0 or a power of two */
};

static struct hf_py_object **place_of(const struct nested *nested,
                                      const struct hf_py_object *object)
{
    size_t at = (uintptr_t)object / 16 * 0x9e3779b97f4a7c15 >> 20;
    while (nested->noted[at &= nested->capacity - 1] != NULL && nested->noted[at] != object)
        at++;
    return &nested->noted[at];
}

static bool make_capacity(struct nested *nested)
{
    struct nested larger = {.capacity = nested->capacity == 0 ? 1024 : nested->capacity * 2};
    larger.noted = hf_calloc(larger.capacity, sizeof(struct hf_py_object *));
    if (larger.noted == NULL)
        return false;
    for (size_t i = 0; i < nested->capacity; i++)
        if (nested->noted[i] != NULL)
            *place_of(&larger, nested->noted[i]) = nested->noted[i];
    hf_free(nested->noted);
    nested->noted = larger.noted;
    nested->capacity = larger.capacity;
    return true;
}

/* Counts a list's values. Returns 0, -E2BIG or -ENOMEM. */
static int count_nested(struct nested *nested, struct hf_py_object *list, size_t values)
{
    nested->values += values;
    if (nested->values < NESTED_MANY || values == 0)
        return 0;
    if (nested->count * 2 >= nested->capacity && !make_capacity(nested))
        return -ENOMEM;
    struct hf_py_object **place = place_of(nested, list);
    if (*place == list)
        nested->again += values;
    else
        nested->count++;
    *place = list;
    return nested->again > AGAIN_MAX ? -E2BIG : 0;
}

/* ---- from Python ---- */

static int from_object(const struct hf_cpython_interpreters *py, struct hf_interpreter *interpreter,
                       struct hf_py_object *object, int depth, struct nested *nested,
                       struct hf_value *out);

/* The items of a list or tuple, which may change meanwhile: only a sequence's own functions are
 * used. `first` items are left for the caller to fill in. */
static int from_sequence(const struct hf_cpython_interpreters *py,
                         struct hf_interpreter *interpreter, struct hf_py_object *sequence,
                         int depth, struct nested *nested, size_t first, struct hf_value *out)
{
    const ssize_t count = py->sequence_size(sequence);
    if (count < 0)
        return -EPROTO;
    const int too_many = depth > 0 ? count_nested(nested, sequence, (size_t)count) : 0;
    if (too_many != 0)
        return too_many;
    struct hf_value *items = hf_calloc((size_t)count + first + 1, sizeof *items);
    int error = items != NULL ? 0 : -ENOMEM;
    size_t made = first;
    for (ssize_t i = 0; error == 0 && i < count; i++) {
        struct hf_py_object *item = py->sequence_item(sequence, i);
        error = item != NULL ? from_object(py, interpreter, item, depth + 1, nested, &items[made])
                             : -EPROTO;
        made += error == 0;
        release(py, item);
    }
    *out = (struct hf_value){.kind = HF_VALUE_LIST, .count = made, .as.items = items};
    if (error != 0)
        hf_value_free(out);
    return error;
}

/* The pickle, and the buffers that the package's function leaves out of it. */
static int from_any(const struct hf_cpython_interpreters *py, struct hf_interpreter *interpreter,
                    struct hf_py_object *object, struct nested *nested, struct hf_value *out)
{
    struct hf_py_object *function = function_of(py, "pack", "dumps");
    struct hf_py_object *packed = function != NULL ? py->call_with(function, object, NULL) : NULL;
    struct hf_py_object *type = packed != NULL ? py->type_of(packed) : NULL;
    struct hf_py_object *pickled = packed, *buffers = NULL;
    int error = packed != NULL ? 0 : -EPROTO;
    if (type == py->tuple_type) {
        pickled = py->sequence_item(packed, 0);
        buffers = py->sequence_item(packed, 1);
        error = pickled != NULL && buffers != NULL ? 0 : -EPROTO;
    }
    if (error == 0 && buffers != NULL)
        error = from_sequence(py, interpreter, buffers, 0, nested, 1, out);
    else if (error == 0) {
        out->as.items = hf_calloc(1, sizeof *out->as.items);
        out->count = 1;
        error = out->as.items != NULL ? 0 : -ENOMEM;
    }
    char *bytes;
    ssize_t count;
    if (error == 0) {
        out->kind = HF_VALUE_PICKLE;
        error = py->bytes_read(pickled, &bytes, &count) == 0
                    ? copy_bytes(&out->as.items[0], HF_VALUE_BYTES, bytes, count)
                    : -EPROTO;
        if (error != 0)
            hf_value_free(out);
    }
    if (pickled != packed)
        release(py, pickled);
    release(py, buffers);
    release(py, type);
    release(py, packed);
    release(py, function);
    return error;
}

/* What has a kind of its own; -ENOMSG if the object has none. */
static int from_simple(const struct hf_cpython_interpreters *py, struct hf_interpreter *interpreter,
                       struct hf_py_object *object, const struct hf_py_object *type, int depth,
                       struct nested *nested, struct hf_value *out)
{
    int overflow = 0, error = -ENOMSG;
    ssize_t count;
    char *bytes;
    if (object == py->none)
        return 0;
    if (type == py->bool_type || type == py->int_type) {
        const long long number = py->int_read(object, &overflow);
        if (overflow != 0)
            return -ENOMSG;
        *out = (struct hf_value){.kind = HF_VALUE_INT, .as.integer = number};
        if (type == py->bool_type)
            *out = (struct hf_value){.kind = HF_VALUE_BOOL, .as.truth = number != 0};
        return 0;
    }
    if (type == py->float_type) {
        *out = (struct hf_value){.kind = HF_VALUE_FLOAT, .as.real = py->float_read(object)};
        return 0;
    }
    if (type == py->text_type) {
        const char *utf8 = py->utf8(object, &count);
        if (utf8 != NULL)
            return copy_bytes(out, HF_VALUE_TEXT, utf8, count);
        py->cpython->clear_error(); /* a lone surrogate */
    } else if (type == py->bytes_type && py->bytes_read(object, &bytes, &count) == 0)
        return copy_bytes(out, HF_VALUE_BYTES, bytes, count);
    else if (type == py->list_type || type == py->tuple_type) {
        if (depth >= DEPTH_MAX)
            return -E2BIG;
        error = from_sequence(py, interpreter, object, depth, nested, 0, out);
        if (error == 0 && type == py->tuple_type)
            out->kind = HF_VALUE_TUPLE;
    }
    return error;
}

static int from_object(const struct hf_cpython_interpreters *py, struct hf_interpreter *interpreter,
                       struct hf_py_object *object, int depth, struct nested *nested,
                       struct hf_value *out)
{
    struct hf_py_object *type = py->type_of(object);
    *out = (struct hf_value){.kind = HF_VALUE_NONE};
    int error =
        type != NULL ? from_simple(py, interpreter, object, type, depth, nested, out) : -EPROTO;
    if (error == -ENOMSG && py->buffer_check(object) != 0) {
        error = hf_memory_from_object(py, interpreter, object, out);
        if (error == -EPROTO) { /* it has no simple layout */
            py->cpython->clear_error();
            error = -ENOMSG;
        }
    }
    if (error == -ENOMSG)
        error = from_any(py, interpreter, object, nested, out);
    release(py, type);
    return error;
}

int hf_value_from_object(const struct hf_cpython_interpreters *py,
                         struct hf_interpreter *interpreter, struct hf_py_object *object,
                         struct hf_value *out)
{
    struct nested nested = {0};
    int error = from_object(py, interpreter, object, 0, &nested, out);
    if (error == -E2BIG) {
        *out = (struct hf_value){.kind = HF_VALUE_NONE};
        error = from_any(py, interpreter, object, &nested, out);
    }
    hf_free(nested.noted);
    return error;
}

/* ---- exceptions ---- */

/* A text of Python's that C can show: what is not UTF-8 (a file's name, say) is written as an
 * escape. Takes the text over; NULL if there is none. */
static struct hf_py_object *encoded(const struct hf_cpython_interpreters *py,
                                    struct hf_py_object *text)
{
    struct hf_py_object *bytes = NULL, *codec = NULL, *errors = NULL;
    struct hf_py_object *encode = text != NULL ? py->cpython->attribute(text, "encode") : NULL;
    if (encode != NULL) {
        codec = py->cpython->string("utf-8");
        errors = py->cpython->string("backslashreplace");
    }
    if (codec != NULL && errors != NULL)
        bytes = py->call_with(encode, codec, errors, NULL);
    if (bytes == NULL)
        py->cpython->clear_error();
    release(py, errors);
    release(py, codec);
    release(py, encode);
    release(py, text);
    return bytes;
}

static const char *text_of(const struct hf_cpython_interpreters *py, struct hf_py_object *bytes)
{
    char *text;
    ssize_t count;
    return bytes != NULL && py->bytes_read(bytes, &text, &count) == 0 ? text : "";
}

static struct hf_py_object *traceback_text(const struct hf_cpython_interpreters *py,
                                           struct hf_py_object *type, struct hf_py_object *value,
                                           struct hf_py_object *traceback)
{
    struct hf_py_object *module = py->import("traceback"), *lines = NULL, *text = NULL;
    struct hf_py_object *format =
        module != NULL ? py->cpython->attribute(module, "format_exception") : NULL;
    if (format != NULL)
        lines = py->call_with(format, type, value, traceback != NULL ? traceback : py->none, NULL);
    struct hf_py_object *empty = lines != NULL ? py->cpython->string("") : NULL;
    struct hf_py_object *join = empty != NULL ? py->cpython->attribute(empty, "join") : NULL;
    if (join != NULL)
        text = py->call_with(join, lines, NULL);
    release(py, join);
    release(py, empty);
    release(py, lines);
    release(py, format);
    release(py, module);
    return text;
}

void hf_value_from_error(const struct hf_cpython_interpreters *py, struct hf_value *out)
{
    struct hf_py_object *type = NULL, *value = NULL, *traceback = NULL;
    py->error_fetch(&type, &value, &traceback);
    py->error_normalize(&type, &value, &traceback);
    if (out != NULL && type != NULL) {
        struct hf_py_object *module = encoded(py, py->cpython->attribute(type, "__module__"));
        struct hf_py_object *name = encoded(py, py->cpython->attribute(type, "__qualname__"));
        struct hf_py_object *message = encoded(py, value != NULL ? py->string_of(value) : NULL);
        struct hf_py_object *printed = encoded(py, traceback_text(py, type, value, traceback));
        const char *in = text_of(py, module), *dot = ".";
        if (strcmp(in, "builtins") == 0 || in[0] == '\0')
            in = dot = "";
        const char *texts[] = {text_of(py, name), text_of(py, message), text_of(py, printed)};
        size_t size = strlen(in) + strlen(dot) + 3;
        for (size_t i = 0; i < 3; i++)
            size += strlen(texts[i]);
        struct hf_error *error = hf_malloc(sizeof *error + size);
        *out = (struct hf_value){.kind = HF_VALUE_NONE};
        if (error != NULL) {
            char *at = (char *)(error + 1);
            error->type = at;
            at += sprintf(at, "%s%s%s", in, dot, texts[0]) + 1;
            error->message = at;
            at += sprintf(at, "%s", texts[1]) + 1;
            error->traceback = at;
            sprintf(at, "%s", texts[2]);
            *out = (struct hf_value){.kind = HF_VALUE_ERROR, .as.error = error};
        }
        release(py, printed);
        release(py, message);
        release(py, name);
        release(py, module);
    }
    release(py, type);
    release(py, value);
    release(py, traceback);
}
