/*
 * A mix: each thread builds up blocks of mixed sizes, keeps some for long, and exchanges others
 * with whoever comes by, through a table of atomic places. Threads end after each of several
 * rounds, and leave blocks in the table for those of the next.
 */
#include "field.h"

#include <stdatomic.h>

enum { PLACES = 1000, OWN = 3000, ROUNDS = 10 };

static _Atomic(void *) places[PLACES];

struct work {
    size_t operations; /* of one thread in one round */
    size_t round;
};

static size_t size_of(uint64_t number)
{
    if (number % 1000 == 0)
        return field_size(number, 14, 18);
    return number % 20 == 0 ? field_size(number, 9, 14) : field_size(number, 3, 9);
}

static void live(size_t index, void *argument)
{
    const struct work *work = argument;
    void *own[OWN] = {NULL};
    uint64_t random = field_seed(index + work->round * 64);
    for (size_t i = 0; i < work->operations; i++) {
        uint64_t number = field_draw(&random);
        void **mine = &own[(number >> 32) % OWN];
        switch (number >> 60) {
        case 0:
        case 1: /* exchanges a block */
            *mine = atomic_exchange(&places[(number >> 20) % PLACES], *mine);
            break;
        case 2: /* has a short burst of small blocks */
        {
            void *burst[20];
            for (size_t j = 0; j < 20; j++)
                burst[j] = field_used(malloc(16 + (number >> j) % 200));
            for (size_t j = 0; j < 20; j++)
                free(burst[j]);
            break;
        }
        default:
            free(*mine);
            *mine = field_used(malloc(size_of(number)));
        }
    }
    for (size_t i = 0; i < OWN; i++)
        free(own[i]);
}

void field_work(const struct field_call *call)
{
    size_t threads = field_threads(call, 4);
    struct work work = {field_times(call, 12000000) / threads / ROUNDS, 0};
    for (; work.round < ROUNDS; work.round++)
        field_in_threads(threads, live, &work);
    for (size_t i = 0; i < PLACES; i++)
        free(atomic_exchange(&places[i], NULL));
}
