/*
 * The paths that most calls take, each alone, for counting instructions (call->what): a pair; 64
 * blocks at a time; a pair of calloc; a pair of aligned_alloc; a resize within a size class. Not
 * timed.
 */
#include "field.h"

#include <string.h>

enum { COUNT = 64000, BATCH = 64 };

static const size_t sizes[] = {16, 24, 48, 64, 96, 128, 256, 512};

static void batches(size_t count)
{
    void *blocks[BATCH];
    for (size_t i = 0; i < count; i += BATCH) {
        for (size_t j = 0; j < BATCH; j++)
            blocks[j] = field_used(malloc(sizes[j % 8]));
        for (size_t j = 0; j < BATCH; j++)
            free(blocks[j]);
    }
}

static void resizes(size_t count)
{
    void *block = malloc(500);
    for (size_t i = 0; i < count; i++)
        block = field_used(realloc(block, 500 + i % 8));
    free(block);
}

void field_work(const struct field_call *call)
{
    size_t count = field_times(call, COUNT);
    if (strcmp(call->what, "batch") == 0)
        batches(count);
    else if (strcmp(call->what, "resize") == 0)
        resizes(count);
    else if (strcmp(call->what, "calloc") == 0)
        for (size_t i = 0; i < count; i++)
            free(field_used(calloc(1, sizes[i % 8])));
    else if (strcmp(call->what, "aligned") == 0)
        for (size_t i = 0; i < count; i++)
            free(field_used(aligned_alloc(64, 64 + i % 8 * 64)));
    else if (strcmp(call->what, "pair") == 0)
        for (size_t i = 0; i < count; i++)
            free(field_used(malloc(sizes[i % 8])));
    else
        abort();
}
