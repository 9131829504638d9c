/* The library through CPython's own API. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <homefree/python.h>

#include "library/words.h"

struct object {
    PyObject ob_base;
    struct words *list;
};

static struct words *list_of(PyObject *self)
{
    return ((struct object *)self)->list;
}

static PyObject *make(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    (void)keywords;
    const char *text;
    if (!PyArg_ParseTuple(arguments, "s:Words", &text))
        return NULL;
    PyObject *self = type->tp_alloc(type, 0);
    if (self != NULL)
        ((struct object *)self)->list = words_new(text);
    return self;
}

/* An object: the collector calls this, and the library deletes its part. */
static void destroy(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    words_delete(list_of(self));
    type->tp_free(self);
    Py_DECREF(type);
}

static Py_ssize_t length(PyObject *self)
{
    return (Py_ssize_t)words_count(list_of(self));
}

/* A string of the library's, which CPython frees. */
static PyObject *join(PyObject *self, PyObject *separator)
{
    const char *between = PyUnicode_AsUTF8(separator);
    if (between == NULL)
        return NULL;
    char *text = words_join(list_of(self), between);
    PyObject *result = PyUnicode_FromString(text);
    PyMem_RawFree(text);
    return result;
}

/* An array over the library's memory, which hf_free() frees with the last view. */
static PyObject *lengths(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    int64_t *numbers = words_lengths(list_of(self));
    struct hf_release *memory = hf_python_record(numbers, "lengths", hf_free);
    if (memory == NULL) {
        hf_free(numbers);
        return NULL;
    }
    const Py_ssize_t count = length(self);
    const struct hf_buffer_layout layout = {
        .format = "q", .itemsize = sizeof *numbers, .ndim = 1, .shape = &count};
    PyObject *array = hf_numpy_array(memory, numbers, &layout);
    hf_release_drop(memory); /* the array holds on */
    return array;
}

static int visit(const char *word, void *function)
{
    PyObject *result = PyObject_CallFunction(function, "s", word);
    Py_XDECREF(result);
    return result == NULL;
}

/* A callback: the library calls it for each word; an exception ends the walk. */
static PyObject *each(PyObject *self, PyObject *function)
{
    if (words_each(list_of(self), visit, function) != 0)
        return NULL;
    Py_RETURN_NONE;
}

/* CPython allocates a copy; the library frees it. */
static PyObject *add(PyObject *self, PyObject *word)
{
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(word, &size);
    char *copy = text != NULL ? PyMem_RawMalloc((size_t)size + 1) : NULL;
    if (copy == NULL)
        return text != NULL ? PyErr_NoMemory() : NULL;
    memcpy(copy, text, (size_t)size + 1);
    words_take(list_of(self), copy);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"join", join, METH_O, "join(separator): the words in one string"},
    {"lengths", lengths, METH_NOARGS, "lengths(): the length of each word, as an array"},
    {"each", each, METH_O, "each(visit): calls visit(word) with each word"},
    {"add", add, METH_O, "add(word): one word more"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, (void *)make},       {Py_tp_dealloc, (void *)destroy},
    {Py_sq_length, (void *)length},  {Py_tp_methods, (void *)methods},
    {Py_tp_doc, "A list of words."}, {0, NULL},
};

static PyType_Spec spec = {"words_capi.Words", sizeof(struct object), 0, Py_TPFLAGS_DEFAULT, slots};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "words_capi", .m_size = -1};

PyMODINIT_FUNC PyInit_words_capi(void)
{
    PyObject *module = PyModule_Create(&definition);
    PyObject *type = PyType_FromSpec(&spec);
    if (module == NULL || type == NULL || PyModule_AddObject(module, "Words", type) != 0) {
        Py_XDECREF(type);
        Py_CLEAR(module);
    }
    return module;
}
