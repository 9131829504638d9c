/* A module that loses some blocks and keeps others in every way that counts, for tests that call it
 * through ctypes. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default)

enum { BLOCKS = 8 };

void *make(size_t size);
void drop(void *block);
void lose(size_t size);
void lose_string(void);
void cache(size_t size);
void lose_in_a_thread(size_t size);
void wipe(void);
int make_and_drop(int count);

struct link {
    struct link *next;
    char capacity[];
};
static struct link *cached;

void *make(size_t size)
{
    return malloc(size);
}

void drop(void *block)
{
    free(block);
}

/* Overwrites what calls have left on the stack. */
void wipe(void)
{
    volatile char capacity[65536];
    for (size_t i = 0; i < sizeof capacity; i++)
        capacity[i] = 0;
}

static __attribute__((noinline)) void lose_some(size_t size)
{
    for (int i = 0; i < BLOCKS; i++)
        memset(malloc(size), 0, size);
}

void lose(size_t size)
{
    lose_some(size);
    wipe();
}

static __attribute__((noinline)) void lose_strings(void)
{
    for (int i = 0; i < BLOCKS; i++)
        *(char *volatile)strdup("lost") = 'L';
}

void lose_string(void)
{
    lose_strings();
    wipe();
}

/* Keeps a block on each call, as caches do. */
void cache(size_t size)
{
    struct link *link = malloc(sizeof *link + size);
    link->next = cached;
    cached = link;
}

static void *work(void *size)
{
    lose_some((size_t)size);
    return NULL;
}

void lose_in_a_thread(size_t size)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, (void *)size) == 0)
        pthread_join(thread, NULL);
}

/* Holds so many blocks at once. Returns 0 if there is no memory. */
int make_and_drop(int count)
{
    void **blocks = calloc((size_t)count, sizeof *blocks);
    int made = 0;
    while (blocks != NULL && made < count && (blocks[made] = malloc(16)) != NULL)
        made++;
    const int all = made == count;
    while (made > 0)
        free(blocks[--made]);
    free(blocks);
    return all;
}
