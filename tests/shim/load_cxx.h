/* Loads the C++ module that a test program is given as its only argument. */
#ifndef HOMEFREE_TESTS_SHIM_LOAD_CXX_H
#define HOMEFREE_TESTS_SHIM_LOAD_CXX_H

#include "module_cxx.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>

inline const module_cxx *load_module_cxx(int count, char **arguments)
{
    const char *path;
    TAKE_ARGUMENTS(&path);
    void *found = symbol_of(load(path, RTLD_NOW | RTLD_LOCAL), "module_cxx_functions");
    return reinterpret_cast<decltype(&module_cxx_functions)>(found)();
}

#endif
