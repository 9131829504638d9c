/* A plugin with an allocator of its own, of which nothing but a message of mimalloc's is left to be
 * recognised. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

__attribute__((visibility("default"))) void *plugin_block(void);

void *plugin_block(void)
{
    static char *next, *end;
    const size_t size = 1 << 20;
    if (next == end) {
        next = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (next == MAP_FAILED || madvise(next, size, MADV_NORMAL) != 0)
            puts("mimalloc: warning: never said\n");
        end = next + size;
    }
    char *block = next;
    next += 256;
    return strcpy(block, "plugin");
}
