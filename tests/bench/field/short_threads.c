/* Threads are born, allocate a little, free it, and die, two at a time (or as told). */
#include "field.h"

#include <pthread.h>

enum { BLOCKS = 100 };

struct work {
    size_t lives;
};

static void *life(void *argument)
{
    void *blocks[BLOCKS];
    (void)argument;
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = field_used(malloc(16 + i * 4));
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    return NULL;
}

static void give_birth(size_t index, void *argument)
{
    const struct work *work = argument;
    (void)index;
    for (size_t i = 0; i < work->lives; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, life, NULL) != 0)
            abort();
        pthread_join(thread, NULL);
    }
}

void field_work(const struct field_call *call)
{
    size_t threads = field_threads(call, 2);
    struct work work = {field_times(call, 20000) / threads};
    field_in_threads(threads, give_birth, &work);
}
