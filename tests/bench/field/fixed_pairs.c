/* Pairs of malloc and free, one block alive at a time, of a few fixed sizes. */
#include "field.h"

void field_work(const struct field_call *call)
{
    static const size_t sizes[] = {16, 24, 48, 64, 96, 128, 256, 512};
    size_t count = field_times(call, 80000000);
    for (size_t i = 0; i < count; i++)
        free(field_used(malloc(sizes[i % 8])));
}
