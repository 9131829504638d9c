/*
 * Frees some of another object's blocks, loses some, and keeps some reachable in every way that
 * counts. With an argument, it loses none, or with "many", more, of all sizes: neighbouring blocks.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void *maker_block(size_t size);
void maker_own(void);

enum { FREED = 20, LOST = 7, SIZE = 100, MANY = 40, LARGEST = 50000 };

struct link {
    struct link *next;
    void *block;
};

static char *volatile by_variable, *volatile by_middle;
static struct link *volatile by_chain;
static void **volatile by_mapping;
static _Thread_local void *volatile by_thread;
static void *volatile by_large;

static __attribute__((noinline)) void chain(void)
{
    for (int i = 0; i < 5; i++) {
        struct link *link = malloc(sizeof *link);
        link->next = by_chain;
        link->block = maker_block(SIZE);
        by_chain = link;
    }
}

static __attribute__((noinline)) void keep(void)
{
    void **large = calloc(1, 3 << 20);
    by_variable = maker_block(SIZE);
    by_middle = (char *)maker_block(SIZE) + 60;
    chain();
    by_mapping = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    by_mapping[1000] = maker_block(SIZE);
    by_thread = maker_block(SIZE);
    large[200000] = maker_block(SIZE);
    by_large = (char *)large + (2 << 20);
}

static __attribute__((noinline)) void lose(int count, size_t size)
{
    void *first = NULL;
    for (int i = 0; i < count; i++) { /* they point to each other, in a circle */
        void **block = maker_block(size);
        first = first != NULL ? first : block;
        *block = first;
    }
}

static __attribute__((noinline)) void give(int count)
{
    void *blocks[FREED];
    for (int i = 0; i < count; i++)
        blocks[i] = maker_block(SIZE);
    for (int i = 0; i < count; i++)
        free(blocks[i]);
}

/* Overwrites what earlier calls left on the stack. */
static __attribute__((noinline)) void wipe(void)
{
    volatile char capacity[16384];
    for (size_t i = 0; i < sizeof capacity; i++)
        capacity[i] = 0;
}

static __attribute__((noinline)) void lose_many(void)
{
    for (size_t size = SIZE; size < LARGEST; size += size / 4)
        lose(MANY, size);
}

static void *work(void *what)
{
    if (what == NULL)
        lose(LOST, SIZE);
    else if (strcmp(what, "many") == 0)
        lose_many();
    wipe();
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_t thread;
    keep();
    /* On another thread's stack, which is gone at the end. */
    if (pthread_create(&thread, NULL, work, count > 1 ? arguments[1] : NULL) != 0)
        return 1;
    pthread_join(thread, NULL);
    give(FREED);
    maker_own();
    wipe();
    puts("ended");
    return 0;
}
