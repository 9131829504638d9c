/* Blocks from calloc, 16 bytes to 64 KiB, that are written to and live for random times. */
#include "field.h"

#include <string.h>

enum { SLOTS = 1000 };

void field_work(const struct field_call *call)
{
    void *slots[SLOTS] = {NULL};
    uint64_t random = field_seed(0);
    size_t count = field_times(call, 3000000);
    for (size_t i = 0; i < count; i++) {
        uint64_t number = field_draw(&random);
        size_t size = number % 16 == 0 ? field_size(number, 10, 16) : field_size(number, 4, 10);
        void **slot = &slots[(uint32_t)number % SLOTS];
        free(*slot);
        *slot = calloc(1, size);
        if (*slot == NULL || ((char *)*slot)[size / 2] != 0)
            abort();
        memset(*slot, 1, size < 1024 ? size : 1024);
    }
    for (size_t i = 0; i < SLOTS; i++)
        free(slots[i]);
}
