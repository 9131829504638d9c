/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See stuck.h. Py_FinalizeEx() ends the process if it finds other interpreters in the list, and
 * nothing that CPython offers takes one out without freeing what its threads still use. Where the
 * link to an interpreter lies differs with CPython's version, so each word that holds the
 * interpreter's address is tried: it is the link if CPython's own functions then leave it out.
 */
#include "satellites/interpreters/stuck.h"

#include <dlfcn.h>
#include <link.h>

/* Less than any version's, and more than where the link lies: 0 in 3.12, 7264 in 3.13. */
#define INTERPRETER_SIZE ((size_t)32 << 10)

static struct hf_py_interpreter *follow(const struct hf_cpython_interpreters *py,
                                        struct hf_py_interpreter *before)
{
    return before != NULL ? py->interpreter_next(before) : py->interpreter_head();
}

/* The memory that the link to an interpreter is in: the one before it, or CPython's _PyRuntime. */
static void *holder_of(struct hf_py_interpreter *before, size_t *size)
{
    Dl_info info;
    void *runtime, *symbol = NULL;
    *size = INTERPRETER_SIZE;
    if (before != NULL)
        return before;
    runtime = dlsym(RTLD_DEFAULT, "_PyRuntime");
    if (runtime == NULL || dladdr1(runtime, &info, &symbol, RTLD_DL_SYMENT) == 0 || symbol == NULL)
        return NULL;
    *size = ((const ElfW(Sym) *)symbol)->st_size;
    return runtime;
}

bool hf_stuck_unlist(const struct hf_cpython_interpreters *py, struct hf_py_interpreter *stuck)
{
    struct hf_py_interpreter *before = NULL, *at, *const after = py->interpreter_next(stuck);
    size_t size;
    while ((at = follow(py, before)) != stuck && at != NULL)
        before = at;
    struct hf_py_interpreter **words = holder_of(before, &size);
    if (at == NULL || after == NULL || words == NULL)
        return false;
    for (size_t i = 0; i < size / sizeof *words; i++) {
        if (words[i] != stuck)
            continue;
        words[i] = after;
        if (follow(py, before) == after)
            return true;
        words[i] = stuck;
    }
    return false;
}
