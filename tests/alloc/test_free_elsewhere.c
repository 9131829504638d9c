/* One thread allocates and another frees: producers and consumers share a bounded queue,
 * consumers check every byte, and no memory is left at the end. */
#include "death.h"
#include "growth.h"

#include <homefree/homefree.h>
#include <pthread.h>
#include <string.h>

#define PAIRS    4
#define MESSAGES 8000
#define QUEUE    256

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned char *items[QUEUE];
    size_t first, count;
};

static void put(struct queue *queue, unsigned char *item)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->count == QUEUE)
        pthread_cond_wait(&queue->changed, &queue->lock);
    queue->items[(queue->first + queue->count++) % QUEUE] = item;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

static unsigned char *get(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->count == 0)
        pthread_cond_wait(&queue->changed, &queue->lock);
    unsigned char *item = queue->items[queue->first];
    queue->first = (queue->first + 1) % QUEUE;
    queue->count--;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    return item;
}

static size_t size_of(size_t i)
{
    return 1 + i * 37 % (i % 100 == 0 ? 60000 : 800);
}

static void *produce(void *queue)
{
    for (size_t i = 0; i < MESSAGES; i++) {
        unsigned char *p = hf_malloc(size_of(i));
        must(p != NULL);
        memset(p, (int)(i % 256), size_of(i));
        put(queue, p);
    }
    return NULL;
}

static void *consume(void *queue)
{
    for (size_t i = 0; i < MESSAGES; i++) {
        unsigned char *p = get(queue);
        for (size_t at = 0; at < size_of(i); at++)
            must(p[at] == i % 256);
        if (i % 3 == 0)
            p = hf_realloc(p, size_of(i) * 2);
        hf_free(p);
    }
    return NULL;
}

static void exchange(void *unused)
{
    static struct queue queues[PAIRS];
    (void)unused;
    pthread_t threads[2 * PAIRS];
    for (size_t i = 0; i < PAIRS; i++) {
        pthread_mutex_init(&queues[i].lock, NULL);
        pthread_cond_init(&queues[i].changed, NULL);
        must(pthread_create(&threads[2 * i], NULL, produce, &queues[i]) == 0);
        must(pthread_create(&threads[2 * i + 1], NULL, consume, &queues[i]) == 0);
    }
    for (size_t i = 0; i < 2 * PAIRS; i++)
        must(pthread_join(threads[i], NULL) == 0);
}

START_TEST(producers_and_consumers)
{
    assert_no_growth(exchange, NULL, 2, 4, 1 << 20);
}
END_TEST

int main(void)
{
    return RUN_SUITE(producers_and_consumers);
}
