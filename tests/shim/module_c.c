/*
 * A C extension module as a user builds one: it links the shim, and calls libc's functions by their
 * names. Built plain and with _FORTIFY_SOURCE, which turns some calls into others.
 */
#include "module_c.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODULE_API __attribute__((visibility("default")))

/* Declared by the linker's name, whatever the headers make of it; some are not in every libc's
 * headers. */
#define HF_SHIM(name, result, parameters, arguments, call) \
    extern result linked_##name parameters __asm__(#name);
#define HF_SHIM_VARIADIC(name, parameters, last, call) \
    extern int linked_##name parameters __asm__(#name);
#include "shim/functions.def"

MODULE_API const struct functions *module_functions(void)
{
    static const struct functions functions = {
#define HF_SHIM(name, result, parameters, arguments, call) .f_##name = linked_##name,
#define HF_SHIM_VARIADIC(name, parameters, last, call)     .f_##name = linked_##name,
#include "shim/functions.def"
    };
    return &functions;
}

static char *format(const char *name, int number)
{
    char *text;
    return asprintf(&text, "%s-%d", name, number) >= 0 ? text : NULL;
}

__attribute__((format(printf, 1, 2))) static char *format_list(const char *pattern, ...)
{
    va_list arguments;
    char *text;
    va_start(arguments, pattern);
    int length = vasprintf(&text, pattern, arguments);
    va_end(arguments);
    return length >= 0 ? text : NULL;
}

static char *absolute(const char *path)
{
    char buffer[PATH_MAX];
    char *found = realpath(path, buffer);
    return found == buffer ? strdup(found) : NULL;
}

static char *directory(size_t size)
{
    char buffer[256];
    char *found = getcwd(buffer, size);
    return found == buffer ? strdup(found) : NULL;
}

static char *first_line(FILE *stream)
{
    char *line = NULL;
    size_t size = 0;
    if (getline(&line, &size, stream) < 0) {
        free(line);
        return NULL;
    }
    return line;
}

MODULE_API const struct idioms *module_idioms(void)
{
    static const struct idioms idioms = {format, format_list, absolute, directory, first_line};
    return &idioms;
}
