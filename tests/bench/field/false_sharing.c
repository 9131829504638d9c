/*
 * Cache lines that threads get from each other, after the class of mimalloc-bench's cache-scratch:
 * the first thread allocates a small block for each other one, which frees it and from then on
 * allocates, writes to and frees blocks of that size. An allocator that reuses the freed neighbours
 * in place makes the threads write to one cache line.
 */
#include "field.h"

enum { SIZE = 8, WRITES = 1000, THREADS_MAX = 64 };

struct work {
    size_t rounds; /* of one thread */
    void *first[THREADS_MAX];
};

static void live(size_t index, void *argument)
{
    struct work *work = argument;
    free(work->first[index]);
    for (size_t i = 0; i < work->rounds; i++) {
        volatile char *block = field_used(malloc(SIZE));
        for (size_t j = 0; j < WRITES; j++)
            block[j % SIZE]++;
        free((void *)(uintptr_t)block);
    }
}

void field_work(const struct field_call *call)
{
    static struct work work;
    size_t threads = field_threads(call, 4);
    if (threads > THREADS_MAX)
        abort();
    work.rounds = field_times(call, 1200000) / threads;
    for (size_t i = 0; i < threads; i++)
        work.first[i] = field_used(malloc(SIZE));
    field_in_threads(threads, live, &work);
}
