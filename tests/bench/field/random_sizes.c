/* Blocks of random sizes, most of them small, that live for random times: one thread. */
#include "field.h"

enum { SLOTS = 20000 };

void field_work(const struct field_call *call)
{
    static void *slots[SLOTS];
    uint64_t random = field_seed(0);
    size_t count = field_times(call, 14000000);
    for (size_t i = 0; i < count; i++) {
        uint64_t number = field_draw(&random);
        void **slot = &slots[(uint32_t)number % SLOTS];
        free(*slot);
        *slot = field_used(malloc(field_size(number, 3, 11)));
    }
    for (size_t i = 0; i < SLOTS; i++)
        free(slots[i]);
}
