/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The extension module: its one exported function and its slots. Owns nothing. Every interpreter
 * may import it, including those with a GIL of their own: its data belongs to the module object,
 * and libhomefree may be called by any thread.
 */
#include "python/native/module_parts.h"

#include <homefree/homefree.h>

static int add_functions(PyObject *module, PyMethodDef *const *tables, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (tables[i] != NULL && PyModule_AddFunctions(module, tables[i]) != 0)
            return -1;
    return 0;
}

/* Adds the parts for homefree.interpreters, if that was not done yet: importing homefree alone does
 * without them. Returns 0, or -1 with an exception set. */
static int add_interpreters_parts(PyObject *module)
{
    static PyMethodDef *const tables[] = {homefree_crossing_methods,    homefree_message_methods,
                                          homefree_layout_methods,      homefree_work_methods,
                                          homefree_worker_methods,      homefree_frames_methods,
                                          homefree_interpreters_methods};
    const struct homefree_state *state = PyModule_GetState(module);
    int result = 0;
    HOMEFREE_BEGIN_ALONE(module);
    if (state->shared == NULL &&
        (add_functions(module, tables, sizeof tables / sizeof tables[0]) != 0 ||
         homefree_message_exec(module) != 0 || homefree_layout_exec(module) != 0 ||
         homefree_crossing_exec(module) != 0))
        result = -1;
    HOMEFREE_END_ALONE();
    return result;
}

PyDoc_STRVAR(interpreters_doc,
             "add_interpreters()\n--\n\n"
             "Adds what the package homefree.interpreters needs, which calls it.");

static PyObject *add_interpreters(PyObject *module, PyObject *unused)
{
    (void)unused;
    if (add_interpreters_parts(module) != 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef own_methods[] = {
    {"add_interpreters", add_interpreters, METH_NOARGS, interpreters_doc},
    {NULL, NULL, 0, NULL},
};

static int execute(PyObject *module)
{
    PyMethodDef *const tables[] = {homefree_host_methods,
                                   homefree_doctor_methods,
                                   homefree_diagnose_methods,
                                   homefree_check_methods,
                                   homefree_load_methods,
                                   homefree_cuda_methods,
                                   homefree_interpreter_methods,
                                   homefree_pressure_methods,
                                   homefree_profile_methods,
                                   homefree_limit_methods,
                                   own_methods};
    return add_functions(module, tables, sizeof tables / sizeof tables[0]) != 0
               ? -1
               : homefree_host_exec(module);
}

static void release(void *module)
{
    homefree_host_clear(module);
}

#define DEFINITION(table)                                                                        \
    {                                                                                            \
        .m_base = PyModuleDef_HEAD_INIT, .m_name = "_homefree",                                  \
        .m_doc = "The C side of the package homefree; use that.",                                \
        .m_size = sizeof(struct homefree_state), .m_slots = (table),                             \
        .m_traverse = homefree_host_traverse, .m_clear = homefree_host_clear, .m_free = release, \
    }

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)execute},
    {HOMEFREE_SLOT_INTERPRETERS, HOMEFREE_PER_INTERPRETER_GIL},
#ifdef Py_GIL_DISABLED
    {HOMEFREE_SLOT_GIL, HOMEFREE_GIL_NOT_USED},
#endif
    {0, NULL},
};
static struct PyModuleDef definition = DEFINITION(slots);

#ifdef Py_GIL_DISABLED
PyMODINIT_FUNC PyInit__homefree(void);
PyMODINIT_FUNC PyInit__homefree(void)
{
    return PyModuleDef_Init(&definition);
}
#else
/* For versions before 3.12. */
static PyModuleDef_Slot old_slots[] = {{Py_mod_exec, (void *)execute}, {0, NULL}};
static struct PyModuleDef old_definition = DEFINITION(old_slots);

/* The running version as PY_VERSION_HEX without its lowest 16 bits: "3.12" is 0x30c. */
static unsigned long running_version(void)
{
    const char *text = Py_GetVersion();
    unsigned long major = 0, minor = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        major = major * 10 + (unsigned long)(*text - '0');
    if (*text == '.')
        for (text++; *text >= '0' && *text <= '9'; text++)
            minor = minor * 10 + (unsigned long)(*text - '0');
    return major << 8 | minor;
}

PyMODINIT_FUNC PyInit__homefree(void);
PyMODINIT_FUNC PyInit__homefree(void)
{
    return PyModuleDef_Init(running_version() >= 0x30c ? &definition : &old_definition);
}
#endif
