/*
 * name.cc - the function that Python looks for in the module, under the name of the module's file.
 *
 * CROSSINGS_MODULE is that name; the build gives it, once for each way of linking.
 */
#include <Python.h>

#define INIT_OF(name) PyInit_##name
#define INIT(name)    INIT_OF(name)

/* module.cc */
extern "C" PyObject *PyInit_crossings(void);

extern "C" __attribute__((visibility("default"))) PyObject *INIT(CROSSINGS_MODULE)(void);

PyObject *INIT(CROSSINGS_MODULE)(void)
{
    return PyInit_crossings();
}
