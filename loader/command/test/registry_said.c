/* SPDX-License-Identifier: BSD-2-Clause */
/* See registry_said.h. */
#include "loader/command/test/registry_said.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum { REFUSED = 1 };

static int said_to = -1;

void hf_registry_say_to(int file)
{
    said_to = file;
}

static void say(char kind, const char *format, va_list arguments)
{
    char line[HF_REGISTRY_LINE];
    const int most = (int)sizeof line - 2; /* of the text, with its end */
    line[0] = kind;
    int length = vsnprintf(line + 1, (size_t)most, format, arguments);
    length = length < most ? length : most - 1;
    line[length + 1] = '\n';
    if (write(said_to, line, (size_t)length + 2) < 0)
        _exit(REFUSED);
}

static void say_text(char kind, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(kind, format, arguments);
    va_end(arguments);
}

void hf_registry_refuse(const char *rule, const char *how, ...)
{
    va_list arguments;
    say_text(HF_REGISTRY_RULE, "%s", rule);
    va_start(arguments, how);
    say(HF_REGISTRY_HOW, how, arguments);
    va_end(arguments);
    _exit(REFUSED);
}

void hf_registry_tell(const char *what, ...)
{
    va_list arguments;
    va_start(arguments, what);
    say(HF_REGISTRY_TOLD, what, arguments);
    va_end(arguments);
}
