/* A process that loads libhomefree when it runs already, for failures.py: late LIBRARY MODULE. What
 * was allocated before is freed afterwards. */
#include "rounds.h"

#include <dlfcn.h>
#include <errno.h>

static const char *library_path, *module_path;

static int load(void)
{
    void *before = malloc(1000);
    void *library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
    void *module = library != NULL ? dlopen(module_path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (module != NULL) {
        void *(*make)(size_t) = NULL;
        void (*drop)(void *) = NULL;
        *(void **)&make = dlsym(module, "module_make");
        *(void **)&drop = dlsym(module, "module_drop");
        must(make != NULL && drop != NULL);
        free(make(100));
        drop(strdup("text"));
        dlclose(module);
    }
    if (library != NULL)
        dlclose(library);
    free(before);
    return library == NULL || module == NULL ? -ELIBACC : 0;
}

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    library_path = arguments[1];
    module_path = arguments[2];
    run_rounds(load);
    return 0;
}
