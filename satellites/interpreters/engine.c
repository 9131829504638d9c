/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine follows from CPython's version and build alone. Owns nothing, takes no lock.
 */
#include "satellites/interpreters/engine.h"

#include <errno.h>
#include <stdio.h>

static int refuse(int error, char *why, size_t size, const char *text)
{
    if (why != NULL && size > 0)
        snprintf(why, size, "%s", text);
    return error;
}

int hf_engine_find(const void *anchor, const struct hf_cpython_interpreters **out, char *why,
                   size_t size)
{
    if (why != NULL && size > 0)
        why[0] = '\0';
    const struct hf_cpython *cpython = hf_cpython_find(anchor);
    if (cpython == NULL)
        return refuse(
            -ENOENT, why, size,
            "there is no CPython 3.9 or later in this process: link libpython, or load it "
            "with RTLD_GLOBAL");
    const struct hf_cpython_interpreters *py = hf_cpython_interpreters();
    if (py == NULL)
        return refuse(-ENOENT, why, size, "this CPython lacks functions that interpreters need");
    if (out != NULL)
        *out = py;
    if (cpython->free_threaded)
        return HF_ENGINE_THREADS;
    if (cpython->version >= 0x30c && py->new_interpreter != NULL)
        return HF_ENGINE_OWN_GIL;
    char text[160];
    snprintf(text, sizeof text,
             "CPython %u.%u has one GIL for all interpreters: use CPython 3.12 or newer",
             cpython->version >> 8, cpython->version & 0xff);
    return refuse(-ENOTSUP, why, size, text);
}

bool hf_engine_is_gone(const struct hf_cpython_interpreters *py)
{
    return py->cpython->is_initialized() == 0 || py->is_finalizing() != 0;
}
