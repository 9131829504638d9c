/* Says of blocks that libc, libstdc++ and this program allocate whether the heap owns them: one
 * line, "heap" or the functions that gave another block. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef bool owns(const void *p);

static void *early;

__attribute__((constructor)) static void allocate_early(void)
{
    early = malloc(100);
}

int main(void)
{
    owns *is_owned = (owns *)dlsym(RTLD_DEFAULT, "hf_owns");
    if (is_owned == NULL) {
        puts("no heap");
        return 1;
    }
    char *name = realpath("/", NULL), *directory = getcwd(NULL, 0), *text = strdup("text");
    const struct {
        const char *function;
        void *block;
    } blocks[] = {
        {"constructor", early},     {"malloc", malloc(1)},
        {"calloc", calloc(10, 10)}, {"realpath", name},
        {"getcwd", directory},      {"strdup", text},
        {"large", malloc(9 << 20)}, {"aligned", aligned_alloc(64, 64)},
    };
    bool all = true;
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        if (blocks[i].block == NULL || !is_owned(blocks[i].block)) {
            printf("%s ", blocks[i].function);
            all = false;
        }
        free(blocks[i].block);
    }
    puts(all ? "heap" : "");
    return all ? 0 : 1;
}
