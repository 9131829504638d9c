/* Very large blocks, 5 to 25 MB, after the class of mimalloc-bench's malloc-large: twenty live at a
 * time, replaced in random order, a byte of each page written to. */
#include "field.h"

enum { SLOTS = 20, SMALLEST = 5 << 20, LARGEST = 25 << 20 };

void field_work(const struct field_call *call)
{
    void *slots[SLOTS] = {NULL};
    uint64_t random = field_seed(0);
    size_t count = field_times(call, 400);
    for (size_t i = 0; i < count; i++) {
        uint64_t number = field_draw(&random);
        size_t size = SMALLEST + (number >> 32) % (LARGEST - SMALLEST);
        void **slot = &slots[(uint32_t)number % SLOTS];
        free(*slot);
        *slot = field_filled(malloc(size), size);
    }
    for (size_t i = 0; i < SLOTS; i++)
        free(slots[i]);
}
