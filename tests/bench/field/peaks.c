/*
 * Memory grows to a peak and most of it is freed, in another order; then there is a time of little
 * work, and the next peak comes. One block in a hundred stays, so that pages are not simply empty
 * again; these are what is left when the work is done.
 */
#include "field.h"

enum { BLOCKS = 400000, PEAKS = 10, STAY = 100 };

void field_work(const struct field_call *call)
{
    size_t count = field_times(call, BLOCKS);
    void **blocks = malloc(count * sizeof *blocks);
    uint64_t random = field_seed(0);
    if (blocks == NULL)
        abort();
    for (size_t peak = 0; peak < PEAKS; peak++) {
        for (size_t i = 0; i < count; i++)
            blocks[i] = field_used(malloc(field_size(field_draw(&random), 4, 10)));
        for (size_t i = count - 1; i > 0; i--) {
            size_t other = field_draw(&random) % (i + 1);
            void *block = blocks[i];
            blocks[i] = blocks[other];
            blocks[other] = block;
        }
        for (size_t i = 0; i < count; i++)
            if (i % STAY != 0)
                free(blocks[i]);
        for (size_t i = 0; i < count; i++)
            free(field_used(malloc(16 + i % 512)));
    }
    free(blocks);
}
