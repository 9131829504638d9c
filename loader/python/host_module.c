/*
 * The extension's part for install(), owner_of(), stats() and route_report(). Owns nothing but the
 * types of their results, which belong to the module object.
 */
#include "module.h"

#include <homefree/homefree.h>

static PyObject *version(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    return PyUnicode_FromString(hf_version());
}

PyMethodDef homefree_host_methods[] = {
    {"version", version, METH_NOARGS, "version()\n--\n\nThe loaded libhomefree's version."},
    {NULL, NULL, 0, NULL},
};

int homefree_host_exec(PyObject *module)
{
    (void)module;
    return 0;
}
