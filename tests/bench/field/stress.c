/*
 * A stress, after the class of mimalloc-bench's mstress: in each of several rounds, threads are
 * born, build lists of arrays of random sizes, exchange arrays with whoever comes by, and end. Some
 * arrays outlive their round.
 *
 * A place of the table has one owner at a time: whoever took its block out of it by exchange.
 */
#include "field.h"

#include <stdatomic.h>

enum { PLACES = 1000, ROUNDS = 50, KEPT = 4000 };

static _Atomic(uintptr_t *) places[PLACES];

struct work {
    size_t arrays; /* of one thread in one round */
    size_t round;
};

/* An array whose words tell its length, so that whoever frees it can look at all of it. */
static uintptr_t *array(uint64_t number)
{
    size_t length = 1 + (number >> 8) % 16;
    if (number % 100 == 0)
        length *= 100;
    else if (number % 10 == 0)
        length *= 8;
    uintptr_t *words = field_used(malloc((length + 1) * sizeof *words));
    words[0] = length;
    for (size_t i = 1; i <= length; i++)
        words[i] = length ^ i;
    return words;
}

static void end(uintptr_t *words)
{
    if (words == NULL)
        return;
    for (size_t i = 1; i <= words[0]; i++)
        if (words[i] != (words[0] ^ i))
            abort();
    free(words);
}

static void live(size_t index, void *argument)
{
    const struct work *work = argument;
    uint64_t random = field_seed(index + work->round * 64);
    uintptr_t **kept = calloc(KEPT, sizeof *kept);
    if (kept == NULL)
        abort();
    for (size_t i = 0; i < work->arrays; i++) {
        uint64_t number = field_draw(&random);
        uintptr_t **mine = &kept[(number >> 32) % KEPT];
        end(*mine);
        *mine = array(number);
        if (number >> 61 == 0)
            *mine = atomic_exchange(&places[(number >> 20) % PLACES], *mine);
    }
    for (size_t i = 0; i < KEPT; i++)
        end(kept[i]);
    free(kept);
}

void field_work(const struct field_call *call)
{
    size_t threads = field_threads(call, 4);
    struct work work = {field_times(call, 8000000) / threads / ROUNDS, 0};
    for (; work.round < ROUNDS; work.round++)
        field_in_threads(threads, live, &work);
    for (size_t i = 0; i < PLACES; i++)
        end(atomic_exchange(&places[i], NULL));
}
