/*
 * What a test asks of a C module: the functions of functions.def as the linker bound them in the
 * module, and a few calls as a user writes them. The same struct is filled with libc's own
 * functions by the test program (fixture.h), so that both can be asked the same.
 */
#ifndef HOMEFREE_TESTS_SHIM_MODULE_C_H
#define HOMEFREE_TESTS_SHIM_MODULE_C_H

#include <dirent.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <wchar.h>

/* The members have a prefix, because libc's headers define some names as macros. */
struct functions {
#define HF_SHIM(name, result, parameters, arguments, call) result(*f_##name) parameters;
#define HF_SHIM_VARIADIC(name, parameters, last, call)     int(*f_##name) parameters;
#include "shim/functions.def"
};

/* Calls under libc's names, with buffers whose size the compiler knows: with _FORTIFY_SOURCE they
 * become calls of the checking functions. */
struct idioms {
    char *(*format)(const char *name, int number); /* asprintf */
    char *(*format_list)(const char *format, ...); /* vasprintf */
    char *(*absolute)(const char *path);           /* realpath() into a buffer, then strdup() */
    char *(*directory)(size_t size);   /* getcwd() into a buffer of 256 bytes, then strdup() */
    char *(*first_line)(FILE *stream); /* getline */
};

typedef const struct functions *module_functions_function(void);
typedef const struct idioms *module_idioms_function(void);
const struct functions *module_functions(void);
const struct idioms *module_idioms(void);

#endif
