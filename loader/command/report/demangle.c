/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See demangle.h.
 */
#include "loader/command/report/demangle.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Longer names are not demangled: a few bytes can stand for gigabytes. */
enum { LONGEST = 2048 };

typedef char *demangle_function(const char *name, char *buffer, size_t *length, int *status);

static demangle_function *find_function(void)
{
    static const char *const libraries[] = {"libstdc++.so.6", "libc++abi.so.1"};
    demangle_function *function = NULL;
    for (size_t i = 0; function == NULL && i < sizeof libraries / sizeof libraries[0]; i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_LOCAL);
        if (library != NULL)
            *(void **)&function = dlsym(library, "__cxa_demangle");
    }
    return function;
}

char *hf_demangle(const char *name)
{
    static bool tried;
    static demangle_function *function;
    if (strncmp(name, "_Z", 2) != 0 || strnlen(name, LONGEST) == LONGEST)
        return NULL;
    if (!tried)
        function = find_function();
    tried = true;
    int status = -1;
    return function != NULL ? function(name, NULL, NULL, &status) : NULL;
}
