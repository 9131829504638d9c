/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/host.h>, as alloc/manual/pages.py takes them. */
#include <homefree/homefree.h>

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Python in this process allocates from the heap, until it is asked not to. */
static int begin(void)
{
    struct hf_python_options options = {
        .size = sizeof options, .python = HF_PYTHON_ARENA, .numpy = 1};
    struct hf_python_state state = {.size = sizeof state};
    int error = hf_python_install(&options, &state);
    if (error != 0)
        fprintf(stderr, "CPython stays where it is: %s\n", strerror(-error));
    else if (state.numpy == HF_PYTHON_NUMPY_ABSENT)
        printf("NumPy is not imported yet; a call after that adds it\n");
    return error;
}

static int end(void)
{
    return hf_python_uninstall(); /* blocks of the heap still go home */
}

/* The data of a NumPy array for a thread of C, which outlives the array. */
static struct hf_release *data_of(const void *array) /* PyObject * */
{
    struct hf_release *data = NULL;
    int error = hf_python_share(array, &data);
    if (error != 0)
        fprintf(stderr, "make a copy: %s\n", strerror(-error));
    return data;
}

#define CALL(result, name, parameters) (*(result(*) parameters)dlsym(python, #name))

int main(int count, char **arguments)
{
    if (count != 2)
        return 2;
    void *python = dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL);
    assert(python != NULL);
    CALL(void, Py_InitializeEx, (int))(0);
    int error = CALL(int, PyRun_SimpleString, (const char *))("import numpy");
    assert(error == 0);
    error = begin();
    assert(error == 0);
    error = CALL(int, PyRun_SimpleString, (const char *))("array = numpy.full(1000, 7.0)");
    assert(error == 0);
    void *module = CALL(void *, PyImport_AddModule, (const char *))("__main__");
    void *array = CALL(void *, PyObject_GetAttrString, (void *, const char *))(module, "array");
    struct hf_release *data = data_of(array);
    CALL(void, Py_DecRef, (void *))(array);
    error = CALL(int, PyRun_SimpleString, (const char *))("del array");
    const double *numbers = hf_release_pointer(data);
    assert(error == 0 && numbers[0] == 7 && numbers[999] == 7);
    error = end();
    assert(error == 0);
    hf_release_drop(data);
    return CALL(int, Py_FinalizeEx, (void))() == 0 ? 0 : 1;
}
