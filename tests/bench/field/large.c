/* Large blocks, 32 KiB to 4 MiB, each page written to, that live for random times. */
#include "field.h"

enum { SLOTS = 24 };

void field_work(const struct field_call *call)
{
    void *slots[SLOTS] = {NULL};
    uint64_t random = field_seed(0);
    size_t count = field_times(call, 80000);
    for (size_t i = 0; i < count; i++) {
        uint64_t number = field_draw(&random);
        size_t size = field_size(number, 15, 22);
        void **slot = &slots[(uint32_t)number % SLOTS];
        free(*slot);
        *slot = field_filled(malloc(size), size);
    }
    for (size_t i = 0; i < SLOTS; i++)
        free(slots[i]);
}
