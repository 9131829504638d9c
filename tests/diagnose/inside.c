/*
 * Frees and resizes addresses inside of blocks, for test_inside.py: of so many blocks of each size
 * that some are the last before pages that cannot be read. Prints how many addresses.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { BYTES = 8 << 20 }; /* of each size: more than the heap maps at once */

__attribute__((noipa)) static void *hide(void *ptr)
{
    return ptr;
}

static size_t misuse(size_t size, size_t inside)
{
    size_t count = BYTES / size;
    char **blocks = malloc(count * sizeof *blocks);
    if (blocks == NULL)
        return 0;
    for (size_t i = 0; i < count; i++)
        if ((blocks[i] = malloc(size)) == NULL)
            return 0;
    for (size_t i = 0; i < count; i++) {
        free(hide(blocks[i] + inside));
        if (realloc(hide(blocks[i] + inside), size) != NULL || errno != ENOMEM)
            return 0;
    }
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
    free(blocks);
    return 2 * count;
}

int main(void)
{
    static const size_t sizes[] = {1000, 2000, 5000, 14000};
    size_t count = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        count += misuse(sizes[i], 8) + misuse(sizes[i], sizes[i] - 1);
    printf("%zu\n", count);
    return 0;
}
