/* sort(text): the words of a text in alphabetical order. libc takes the text apart, and puts the
 * words together again in a buffer of ours. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <argz.h>
#include <homefree/python.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The words of an argz vector, sorted, as another one; 0, or ENOMEM. */
static int sorted(char *words, size_t size, char **result, size_t *result_size)
{
    size_t count = argz_count(words, size);
    char **list = malloc((count + 1) * sizeof(*list));
    int error = list == NULL ? ENOMEM : 0;
    if (error == 0) {
        argz_extract(words, size, list);
        qsort(list, count, sizeof(*list), compare);
    }
    for (size_t i = 0; error == 0 && i < count; i++)
        if (*list[i] != '\0')
            error = argz_add(result, result_size, list[i]); /* libc grows what is ours */
    free(list);
    return error;
}

static PyObject *sort(PyObject *self, PyObject *text)
{
    (void)self;
    const char *given = PyUnicode_AsUTF8(text);
    if (given == NULL)
        return NULL;
    char *words = NULL;
    char *result = malloc(1);
    size_t size = 0, result_size = 0;
    int error = result == NULL ? ENOMEM : argz_create_sep(given, ' ', &words, &size);
    if (error == 0)
        error = sorted(words, size, &result, &result_size);
    if (error == 0)
        argz_stringify(result, result_size, ' ');
    PyObject *answer =
        error != 0 ? PyErr_NoMemory() : PyUnicode_FromString(result_size ? result : "");
    free(words); /* libc allocated it */
    free(result);
    return answer;
}

static PyMethodDef methods[] = {{"sort", sort, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static PyModuleDef_Slot slots[] = {
#ifdef Py_mod_gil /* since 3.13: it works without a GIL */
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_methods = methods, .m_slots = slots};

PyMODINIT_FUNC HF_MODULE_INIT(void)
{
    return PyModuleDef_Init(&definition);
}
