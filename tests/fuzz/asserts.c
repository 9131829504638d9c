/*
 * Check's assertions without its runner: a fuzzer wants the process to end at once. Owns nothing.
 */
#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void _mark_point(const char *file, int line)
{
    (void)file;
    (void)line;
}

void _ck_assert_failed(const char *file, int line, const char *expression, const char *message, ...)
{
    fprintf(stderr, "%s:%d: %s\n", file, line, expression);
    if (message != NULL) {
        va_list arguments;
        va_start(arguments, message);
        vfprintf(stderr, message, arguments);
        va_end(arguments);
        fputc('\n', stderr);
    }
    abort();
}
