/*
 * fixture.c - see fixture.h.
 */
#include "fixture.h"
#include "process.h"

#include <dlfcn.h>

struct functions module;
struct idioms idioms;
struct functions libc;
const struct functions *const makers[MAKERS] = {&module, &libc};

void assert_home(const struct functions *maker, const void *block)
{
    ck_assert_ptr_nonnull(block);
    ck_assert_msg(hf_owns(block) == (maker == &module), "%p is %sthe heap's", block,
                  hf_owns(block) ? "" : "not ");
}

void load_module(int count, char **arguments)
{
    const char *path;
    TAKE_ARGUMENTS(&path);
    void *handle = load(path, RTLD_NOW | RTLD_LOCAL);
    module = *((module_functions_function *)symbol_of(handle, "module_functions"))();
    idioms = *((module_idioms_function *)symbol_of(handle, "module_idioms"))();
#define HF_SHIM(name, result, parameters, arguments, call) \
    libc.f_##name = (result(*) parameters)dlsym(RTLD_DEFAULT, #name);
#define HF_SHIM_VARIADIC(name, parameters, last, call) \
    libc.f_##name = (int(*) parameters)dlsym(RTLD_DEFAULT, #name);
#include "shim/functions.def"
}
