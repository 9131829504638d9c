/*
 * Producers allocate, consumers free: no thread ever frees what it allocated. Batches go from each
 * producer to its consumer through a ring, which the ring's lock protects. The batches themselves
 * are the side's alone that holds them.
 */
#include "field.h"

#include <pthread.h>

enum { BATCH = 128, RING = 32, PAIRS_MAX = 32, SMALLEST = 16, LARGEST = 512 };

struct ring {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t made, used; /* batches so far */
    void *blocks[RING][BATCH];
};

struct work {
    size_t batches; /* of one pair */
    struct ring *rings;
};

static void produce(struct ring *ring, size_t batches, size_t index)
{
    uint64_t random = field_seed(index);
    for (size_t i = 0; i < batches; i++) {
        pthread_mutex_lock(&ring->lock);
        while (ring->made - ring->used == RING)
            pthread_cond_wait(&ring->changed, &ring->lock);
        pthread_mutex_unlock(&ring->lock);
        for (size_t j = 0; j < BATCH; j++) {
            size_t size = SMALLEST + field_draw(&random) % (LARGEST - SMALLEST);
            ring->blocks[i % RING][j] = field_used(malloc(size));
        }
        pthread_mutex_lock(&ring->lock);
        ring->made++;
        /* A consumer that waits is woken when there is some work, not for each batch. */
        if (ring->made - ring->used >= RING / 2 || ring->made == batches)
            pthread_cond_signal(&ring->changed);
        pthread_mutex_unlock(&ring->lock);
    }
}

static void consume(struct ring *ring, size_t batches)
{
    for (size_t i = 0; i < batches; i++) {
        pthread_mutex_lock(&ring->lock);
        while (ring->made == ring->used)
            pthread_cond_wait(&ring->changed, &ring->lock);
        pthread_mutex_unlock(&ring->lock);
        for (size_t j = 0; j < BATCH; j++)
            free(ring->blocks[i % RING][j]);
        pthread_mutex_lock(&ring->lock);
        ring->used++;
        if (ring->made - ring->used <= RING / 2)
            pthread_cond_signal(&ring->changed);
        pthread_mutex_unlock(&ring->lock);
    }
}

static void take_part(size_t index, void *argument)
{
    const struct work *work = argument;
    struct ring *ring = &work->rings[index / 2];
    if (index % 2 == 0)
        produce(ring, work->batches, index);
    else
        consume(ring, work->batches);
}

void field_work(const struct field_call *call)
{
    static struct ring rings[PAIRS_MAX];
    size_t pairs = (field_threads(call, 4) + 1) / 2;
    if (pairs == 0 || pairs > PAIRS_MAX)
        abort();
    for (size_t i = 0; i < pairs; i++) {
        pthread_mutex_init(&rings[i].lock, NULL);
        pthread_cond_init(&rings[i].changed, NULL);
    }
    struct work work = {field_times(call, 8000000) / BATCH / pairs + 1, rings};
    field_in_threads(pairs * 2, take_part, &work);
}
