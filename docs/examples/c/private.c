/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/private.h>, as alloc/manual/pages.py takes them. */
#include <homefree/homefree.h>
#include <homefree/interpreters.h>

#include <assert.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>

/* A library with globals of its own for each caller. */
static void *load_private(const char *path)
{
    char copy[PATH_MAX];
    if (hf_private_copy(path, copy, sizeof copy) != 0)
        return NULL;
    void *handle = dlopen(copy, RTLD_NOW | RTLD_LOCAL);
    int error = hf_private_remove(copy); /* the loaded copy stays */
    assert(error == 0);
    return handle;
}

static void two_copies(const char *path)
{
    void *first = load_private(path), *second = load_private(path);
    assert(first != NULL && second != NULL && first != second);
    dlclose(first);
    dlclose(second);
}

/* A copy for an interpreter of a group; one that an ended interpreter had is used again. */
static void *copy_for(const char *path, int64_t interpreter)
{
    void *handle = hf_private_reuse(path, interpreter);
    if (handle != NULL)
        return handle;
    char copy[PATH_MAX];
    if (hf_private_copy(path, copy, sizeof copy) != 0)
        return NULL;
    handle = dlopen(copy, RTLD_NOW | RTLD_LOCAL);
    if (handle != NULL && hf_private_lend(path, handle, interpreter) != 0)
        printf("nobody can have this copy of %s afterwards\n", path);
    hf_private_remove(copy);
    return handle;
}

/* The copy that the interpreter of a new group gets. */
static void *copy_in_group(const char *path)
{
    struct hf_interpreters *group = NULL;
    struct hf_interpreters_options options = {.size = sizeof options, .count = 1};
    int error = hf_interpreters_start(&group, &options, NULL, 0);
    assert(error == 0);
    struct hf_interpreter_stats stats = {.size = sizeof stats};
    error = hf_interpreters_stats(group, 0, &stats);
    assert(error == 0);
    void *handle = copy_for(path, stats.id);
    assert(handle != NULL);
    error = hf_interpreters_end(group, -1);
    assert(error == 0);
    return handle;
}

int main(int count, char **arguments)
{
    if (count < 2)
        return 2;
    two_copies(arguments[1]);
    if (count == 2)
        return 0;
    void *python = dlopen(arguments[2], RTLD_NOW | RTLD_GLOBAL);
    assert(python != NULL);
    if (hf_interpreters_engine(NULL, 0) != HF_ENGINE_OWN_GIL)
        return 0; /* threads share one interpreter, and its copies */
    void *first = copy_in_group(arguments[1]), *second = copy_in_group(arguments[1]);
    assert(first == second && dlsym(first, "take") != NULL);
    return 0;
}
