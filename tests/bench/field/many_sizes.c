/* All sizes up to 16 KiB alike, in threads that share nothing (two, unless told). */
#include "field.h"

enum { SLOTS = 2000, LARGEST = 16384 };

struct work {
    size_t operations;
};

static void replace(size_t index, void *argument)
{
    const struct work *work = argument;
    void *slots[SLOTS] = {NULL};
    uint64_t random = field_seed(index);
    for (size_t i = 0; i < work->operations; i++) {
        uint64_t number = field_draw(&random);
        size_t size = 1 + (number >> 32) % LARGEST;
        void **slot = &slots[(uint32_t)number % SLOTS];
        free(*slot);
        *slot = field_used(malloc(size));
        ((volatile char *)*slot)[size - 1] = 1;
    }
    for (size_t i = 0; i < SLOTS; i++)
        free(slots[i]);
}

void field_work(const struct field_call *call)
{
    size_t threads = field_threads(call, 2);
    struct work work = {field_times(call, 3000000) / threads};
    field_in_threads(threads, replace, &work);
}
