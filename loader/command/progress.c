/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See progress.h.
 */
#include "loader/command/progress.h"

#include "loader/command/text.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static bool shown;

static uint64_t milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void hf_progress(const char *who, const char *format, ...)
{
    enum { PATIENCE = 1000, PAUSE = 100 };
    static uint64_t next;
    const uint64_t now = milliseconds();
    if (next == 0)
        next = now + PATIENCE;
    if (now < next || !isatty(STDERR_FILENO))
        return;
    next = now + PAUSE;
    char line[80];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\r\033[K%s: ", who);
    hf_text_print(stderr, line);
    fflush(stderr);
    shown = true;
}

void hf_progress_end(void)
{
    if (shown)
        fputs("\r\033[K", stderr);
    shown = false;
}
