/*
 * What the debug heap knows of each block, where that is easily lost: calls from more places
 * than a thread remembers, objects that come and go, sites that become deep, blocks that realloc()
 * moved, and the bytes around the end of a block.
 *
 *   marks CASE [PLUGIN...]      prints how many blocks a case allocated, or damaged
 */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOUR(it)     it it it it
#define SIXTEEN(it)  FOUR(FOUR(it))
#define THOUSAND(it) FOUR(SIXTEEN(SIXTEEN(it)))

enum { PLACES = 1024, ROUNDS = 5, THREADS = 40, PAIRS = 500, GIVEN = 100 };

static void *volatile blocks[PLACES];

static void allocate_everywhere(void)
{
    size_t i = 0;
    THOUSAND(blocks[i] = malloc(i % 97 + 1); i++;)
}

/* `first`: which block the first place frees. */
static void free_everywhere(size_t first)
{
    size_t i = first;
    THOUSAND(free(blocks[i++ % PLACES]);)
}

static size_t many_places(void)
{
    for (size_t round = 0; round < ROUNDS; round++) {
        allocate_everywhere();
        free_everywhere(round * 7);
    }
    return (size_t)PLACES * ROUNDS;
}

static void *pairs(void *unused)
{
    (void)unused;
    for (int i = 0; i < PAIRS; i++) {
        void *volatile block = malloc(100);
        free(block);
    }
    return NULL;
}

static size_t many_threads(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, pairs, NULL) != 0)
            abort();
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return (size_t)THREADS * PAIRS;
}

/* Plugins take the same addresses, one after the other. */
static size_t other_objects(char **plugins)
{
    size_t given = 0;
    for (int round = 0; round < 3; round++)
        for (char **path = plugins; *path != NULL; path++) {
            void *plugin = dlopen(*path, RTLD_NOW | RTLD_LOCAL);
            void *(*give)(void) = (void *(*)(void))dlsym(plugin, "give");
            for (int i = 0; i < GIVEN; i++, given++)
                free(give());
            dlclose(plugin);
        }
    return given;
}

/* A site that another thread remembers becomes deep. */
static sem_t go, went;
static void *volatile crossing;

static __attribute__((noinline)) void *allocate_there(void)
{
    void *volatile block = malloc(40);
    return block;
}

static __attribute__((noinline)) void free_wrongly(void *block)
{
    void (*wrong)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "_ZdlPv");
    if (wrong == NULL)
        abort();
    wrong(block);
    __asm__ volatile(""); /* no tail call */
}

static void *allocate_twice(void *unused)
{
    (void)unused;
    for (int i = 0; i < GIVEN; i++)
        free(allocate_there());
    sem_post(&went);
    sem_wait(&go);
    crossing = allocate_there();
    return NULL;
}

static size_t deepened(void)
{
    pthread_t thread;
    sem_init(&go, 0, 0);
    sem_init(&went, 0, 0);
    if (pthread_create(&thread, NULL, allocate_twice, NULL) != 0)
        abort();
    sem_wait(&went);
    free_wrongly(allocate_there());
    sem_post(&go);
    pthread_join(thread, NULL);
    free_wrongly(crossing);
    return 2;
}

/* A site that was found early allocates very often before two of its blocks cross elsewhere. */
static size_t seldom(void)
{
    free_wrongly(allocate_there());
    for (int i = 0; i < 40000; i++)
        free(allocate_there());
    void (*wrong)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "_ZdaPv");
    for (int i = 0; i < 100; i++) {
        void *block = allocate_there();
        if (i % 50 == 0)
            wrong(block);
        else
            free(block);
    }
    return 3;
}

/* A block that was moved is freed again at its old address. */
static size_t moved(void)
{
    void *volatile block = malloc(24);
    void *volatile old = block;
    block = realloc(block, 400);
    if (block == old)
        abort();
    free(old);
    free(block);
    return 1;
}

static void fill(unsigned char *block, size_t size)
{
    if (malloc_usable_size(block) < size)
        abort();
    memset(block, 0x5a, malloc_usable_size(block));
}

static void verify(const unsigned char *block, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (block[i] != 0x5a)
            abort();
}

/* Every size, to the last usable byte. */
static size_t all_sizes(void)
{
    void (*free_sized)(void *, size_t) =
        (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
    size_t count = 0;
    for (size_t size = 0; size < 40000; size += size < 2100 ? 1 : 509, count++) {
        unsigned char *block = malloc(size);
        fill(block, size);
        const size_t smaller = size - size / 9;
        block = realloc(block, smaller + 1);
        verify(block, smaller < size ? smaller : size);
        fill(block, smaller + 1);
        block = realloc(block, size + 3);
        verify(block, smaller + 1);
        fill(block, size + 3);
        if (free_sized != NULL)
            free_sized(block, size + 3);
        else
            free(block);
        unsigned char *aligned = aligned_alloc(size % 2 == 0 ? 64 : 4096, size);
        fill(aligned, size);
        free(aligned);
        unsigned char *cleared = calloc(1, size);
        for (size_t i = 0; i < size; i++)
            if (cleared[i] != 0)
                abort();
        fill(cleared, size);
        free(cleared);
    }
    return count;
}

/* The byte behind the last usable one, where that is the last requested one. */
static size_t first_bytes_behind(void)
{
    size_t damaged = 0;
    for (size_t size = 1; size < 4000; size++) {
        unsigned char *volatile block = malloc(size);
        if (malloc_usable_size(block) == size) {
            block[size] ^= 0x80;
            damaged++;
        }
        free(block);
    }
    return damaged;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        size_t (*run)(void);
    } cases[] = {
        {"many-places", many_places},
        {"many-threads", many_threads},
        {"deepened", deepened},
        {"seldom", seldom},
        {"moved", moved},
        {"all-sizes", all_sizes},
        {"first-bytes-behind", first_bytes_behind},
    };
    if (argc >= 2 && strcmp(argv[1], "other-objects") == 0)
        printf("%zu\n", other_objects(argv + 2));
    for (size_t i = 0; argc == 2 && i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(argv[1], cases[i].name) == 0)
            printf("%zu\n", cases[i].run());
    return 0;
}
