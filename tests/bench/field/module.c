/*
 * Linked into each module of the field benchmark: what the host asks of it beside its work.
 */
#include "field.h"

#include <pthread.h>

void *field_take(size_t size)
{
    return malloc(size);
}

void field_give(void *block)
{
    free(block);
}

void field_idle(void)
{
    void *blocks[256];
    for (size_t i = 0; i < 256; i++)
        blocks[i] = field_used(malloc(64 + i * 8));
    for (size_t i = 0; i < 256; i++)
        free(blocks[i]);
}

enum { THREADS_MAX = 64 };

struct start {
    size_t index;
    void (*work)(size_t index, void *argument);
    void *argument;
};

static void *started(void *argument)
{
    struct start *start = argument;
    start->work(start->index, start->argument);
    return NULL;
}

void field_in_threads(size_t count, void (*work)(size_t index, void *argument), void *argument)
{
    pthread_t threads[THREADS_MAX];
    struct start starts[THREADS_MAX];
    if (count > THREADS_MAX)
        abort();
    for (size_t i = 0; i < count; i++) {
        starts[i] = (struct start){i, work, argument};
        if (pthread_create(&threads[i], NULL, started, &starts[i]) != 0)
            abort();
    }
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}
