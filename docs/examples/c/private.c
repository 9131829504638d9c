/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/private.h>, as alloc/manual/pages.py takes them. */
#include <homefree/homefree.h>

#include <assert.h>
#include <dlfcn.h>
#include <limits.h>

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

int main(int count, char **arguments)
{
    if (count != 2)
        return 2;
    two_copies(arguments[1]);
    return 0;
}
