/* Blocks at multiples of 16 to 4096 bytes, from aligned_alloc and posix_memalign. */
#include "field.h"

enum { SLOTS = 2000 };

void field_work(const struct field_call *call)
{
    void *slots[SLOTS] = {NULL};
    uint64_t random = field_seed(0);
    size_t count = field_times(call, 9000000);
    for (size_t i = 0; i < count; i++) {
        uint64_t number = field_draw(&random);
        /* Mostly cache lines and vectors, now and then a page. */
        size_t alignment = number % 50 == 0 ? 4096 : (size_t)16 << (number >> 8) % 4;
        size_t size = (field_size(number, 4, 12) + alignment - 1) / alignment * alignment;
        void **slot = &slots[(number >> 20) % SLOTS];
        free(*slot);
        if (number >> 63 != 0)
            *slot = aligned_alloc(alignment, size);
        else if (posix_memalign(slot, alignment, size) != 0)
            abort();
        if ((uintptr_t)*slot % alignment != 0)
            abort();
        field_used(*slot);
    }
    for (size_t i = 0; i < SLOTS; i++)
        free(slots[i]);
}
