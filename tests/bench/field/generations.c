/*
 * A server whose threads are many and whose sets are large, after the class of mimalloc-bench's
 * larson: the threads of a generation replace random blocks of 8 to 1000 bytes, and hand their sets
 * round, so that the next generation frees what its neighbours allocated.
 */
#include "field.h"

enum { SLOTS = 5000, SMALLEST = 8, LARGEST = 1000, GENERATIONS = 100, THREADS_MAX = 64 };

struct work {
    size_t operations; /* of one thread */
    size_t generation, threads;
    void *slots[THREADS_MAX][SLOTS];
};

static void live(size_t index, void *argument)
{
    struct work *work = argument;
    void **slots = work->slots[(index + work->generation) % work->threads];
    uint64_t random = field_seed(index + work->generation * THREADS_MAX);
    for (size_t i = 0; i < work->operations; i++) {
        uint64_t number = field_draw(&random);
        void **slot = &slots[(uint32_t)number % SLOTS];
        free(*slot);
        *slot = field_used(malloc(SMALLEST + (number >> 32) % (LARGEST - SMALLEST)));
    }
}

void field_work(const struct field_call *call)
{
    static struct work work;
    work.threads = field_threads(call, 4);
    if (work.threads > THREADS_MAX)
        abort();
    work.operations = field_times(call, 12000000) / work.threads / GENERATIONS;
    for (work.generation = 0; work.generation < GENERATIONS; work.generation++)
        field_in_threads(work.threads, live, &work);
    for (size_t i = 0; i < work.threads; i++)
        for (size_t j = 0; j < SLOTS; j++)
            free(work.slots[i][j]);
}
