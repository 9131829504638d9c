/*
 * fixture.c - see fixture.h.
 */
#include "fixture.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

struct functions module;
struct idioms idioms;
struct functions libc;

void assert_home(const struct functions *maker, const void *block)
{
    ck_assert_ptr_nonnull(block);
    ck_assert_msg(hf_owns(block) == (maker == &module), "%p is %sthe heap's", block,
                  hf_owns(block) ? "" : "not ");
}

/* A function's address as dlsym() gives it. */
static void *symbol(void *handle, const char *name)
{
    void *found = dlsym(handle, name);
    if (found == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(EXIT_FAILURE);
    }
    return found;
}

static void load(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(EXIT_FAILURE);
    }
    module = *((module_functions_function *)symbol(handle, "module_functions"))();
    idioms = *((module_idioms_function *)symbol(handle, "module_idioms"))();
#define HF_SHIM(name, result, parameters, arguments, call) \
    libc.f_##name = (result(*) parameters)dlsym(RTLD_DEFAULT, #name);
#define HF_SHIM_VARIADIC(name, parameters, last, call) \
    libc.f_##name = (int(*) parameters)dlsym(RTLD_DEFAULT, #name);
#include "functions.def"
}

Suite *suite_of(const char *name, const TTest *const *tests, size_t count)
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    for (size_t i = 0; i < count; i++)
        tcase_add_test(tcase, tests[i]);
    suite_add_tcase(suite, tcase);
    return suite;
}

int run_suite(int count, char **arguments, Suite *suite)
{
    if (count != 2) {
        fprintf(stderr, "usage: %s MODULE\n", arguments[0]);
        return 2;
    }
    load(arguments[1]);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
