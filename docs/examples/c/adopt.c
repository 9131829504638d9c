/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/adopt.h>, as alloc/manual/pages.py takes them. */
#include <homefree/homefree.h>

#include <assert.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>

/* A prebuilt library that allocates from the heap from now on, whatever it has inside. */
static void *load_adopted(const char *path)
{
    char file[PATH_MAX];
    int error = hf_adopt_file(path, file, sizeof file);
    if (error < 0) {
        fprintf(stderr, "%s\n", file); /* the reason */
        return NULL;
    }
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (handle != NULL && hf_adopt(handle) < 0)
        fprintf(stderr, "%s allocates where it did\n", path);
    return handle;
}

static void adopted(const char *path)
{
    void *handle = load_adopted(path);
    assert(handle != NULL);
    void *(*take)(void) = (void *(*)(void))dlsym(handle, "take");
    void *block = take();
    assert(hf_owns(block));
    hf_free(block);
    dlclose(handle);
}

int main(int count, char **arguments)
{
    if (count != 2)
        return 2;
    adopted(arguments[1]);
    return 0;
}
