/*
 * partner.cc - another module of the same process, with an allocator of its own.
 *
 * Written once and built once for each allocator. CROSSINGS_PARTNER is the module's name;
 * CROSSINGS_ALLOCATE and CROSSINGS_RELEASE are what it calls for its blocks (mi_malloc and mi_free,
 * say), or else it calls malloc and free. In plain C API, so that nothing but blocks crosses.
 */
#ifdef CROSSINGS_ALLOCATE
#    include <cstddef>
extern "C" {
void *CROSSINGS_ALLOCATE(std::size_t size);
void CROSSINGS_RELEASE(void *block);
}
#endif

#include "methods.h"

static PyMethodDef methods[] = {
    CROSSINGS_BLOCK_METHODS,
    {nullptr, nullptr, 0, nullptr},
};

#define TEXT_OF(name) #name
#define TEXT(name)    TEXT_OF(name)
#define INIT_OF(name) PyInit_##name
#define INIT(name)    INIT_OF(name)

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    TEXT(CROSSINGS_PARTNER),
    nullptr,
    -1,
    methods,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
};

/* Not PyMODINIT_FUNC: Python 3.8's leaves the function hidden where everything is by default. */
extern "C" __attribute__((visibility("default"))) PyObject *INIT(CROSSINGS_PARTNER)(void);

PyObject *INIT(CROSSINGS_PARTNER)(void)
{
    PyObject *partner = PyModule_Create(&definition);
#ifdef Py_GIL_DISABLED
    if (partner != nullptr)
        PyUnstable_Module_SetGIL(partner, Py_MOD_GIL_NOT_USED);
#endif
    return partner;
}
