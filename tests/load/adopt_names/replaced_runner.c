/*
 * An adopted module stays one object, whatever becomes of its file while it is loaded: touched, as
 * by an installer that links it elsewhere, replaced, and removed. The dynamic linker knows loaded
 * objects by their paths, too. test_names.py runs it.
 *
 * usage: replaced-runner FILE
 */
#include <dlfcn.h>
#include <homefree/homefree.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static void *opened(const char *path)
{
    char file[PATH_MAX];
    const int result = hf_adopt_file(path, file, sizeof file);
    void *handle = result == 1 ? dlopen(file, RTLD_NOW) : NULL;
    if (handle == NULL || dlopen(path, RTLD_NOW | RTLD_NOLOAD) != handle) {
        printf("%d %s\n", result, file);
        exit(1);
    }
    return handle;
}

int main(int count, char **arguments)
{
    char link[PATH_MAX];
    if (count != 3)
        return 2;
    const char *file = arguments[1];
    snprintf(link, sizeof link, "%s.link", file);
    void *handle = opened(file);
    int right = chmod(file, 0755) == 0 && opened(file) == handle;
    right += rename(file, link) == 0 && rename(arguments[2], file) == 0 && opened(file) == handle;
    right += remove(file) == 0 && opened(file) == handle;
    printf("%d\n", right);
    return 0;
}
