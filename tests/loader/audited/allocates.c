/* Allocates and frees through its own lazily bound slots, and through libc's.
 * usage: allocates [LIBRARY]…, which are loaded first */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (dlopen(argv[i], RTLD_LAZY) == NULL) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
    char *line = NULL, *text = NULL;
    size_t size = 0;
    FILE *self = fopen("/proc/self/maps", "r");
    while (self != NULL && getline(&line, &size, self) > 0) {
        text = realloc(text, size);
        free(strdup(line));
    }
    if (self == NULL || asprintf(&line, "%s", "done") < 0)
        return 1;
    puts(line);
    free(line);
    free(text);
    return fclose(self);
}
