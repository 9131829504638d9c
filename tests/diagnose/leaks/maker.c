/* Makes blocks that its caller is to free, and one that it frees itself. */
#include <stdlib.h>

__attribute__((visibility("default"))) void *maker_block(size_t size);
__attribute__((visibility("default"))) void maker_own(void);

void *maker_block(size_t size)
{
    return calloc(1, size);
}

void maker_own(void)
{
    static void *volatile lost;
    for (int i = 0; i < 4; i++) {
        void *block = malloc(77);
        lost = i % 2 == 0 ? block : lost;
        if (i % 2 != 0)
            free(block);
    }
    lost = NULL;
}
