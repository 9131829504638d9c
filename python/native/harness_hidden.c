/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree_hidden.so: an object with an allocator of its own, beside which `homefree test` puts
 * modules.
 *
 * Owns: a heap of its own behind hidden functions with libc's names, as in a library that was
 * linked with an allocator, and some live blocks in it. One exported function works on that heap.
 * It links nothing of homefree. Any thread may call it; fork: only while no other thread is in it.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { CLASSES = 13, SMALLEST = 32, CHUNK = 1 << 20, LIVE = 64 };

/* In front of each block. */
struct header {
    size_t class;
    struct header *next; /* while it is free */
};

static struct {
    pthread_mutex_t lock;
    struct header *free[CLASSES];
    char *at, *end;
} heap = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The dynamic linker never sees these: calls from here alone come here. */
#define HIDDEN __attribute__((visibility("hidden"), noinline))
HIDDEN void *malloc(size_t size);
HIDDEN void free(void *pointer);
HIDDEN void *calloc(size_t count, size_t size);
HIDDEN void *realloc(void *pointer, size_t size);
__attribute__((visibility("default"))) int homefree_hidden_turn(void);

static size_t size_of_class(size_t class)
{
    return (size_t)SMALLEST << class;
}

static struct header *carve(size_t class)
{
    const size_t size = size_of_class(class) + sizeof(struct header);
    if ((size_t)(heap.end - heap.at) < size) {
        void *chunk = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (chunk == MAP_FAILED)
            return NULL;
        heap.at = chunk;
        heap.end = heap.at + CHUNK;
    }
    struct header *made = (struct header *)(void *)heap.at;
    heap.at += size;
    made->class = class;
    return made;
}

void *malloc(size_t size)
{
    size_t class = 0;
    while (class < CLASSES && size_of_class(class) < size)
        class ++;
    if (class == CLASSES)
        return NULL;
    pthread_mutex_lock(&heap.lock);
    struct header *block = heap.free[class];
    if (block != NULL)
        heap.free[class] = block->next;
    else
        block = carve(class);
    pthread_mutex_unlock(&heap.lock);
    return block != NULL ? block + 1 : NULL;
}

void free(void *pointer)
{
    if (pointer == NULL)
        return;
    struct header *block = (struct header *)pointer - 1;
    pthread_mutex_lock(&heap.lock);
    block->next = heap.free[block->class];
    heap.free[block->class] = block;
    pthread_mutex_unlock(&heap.lock);
}

void *calloc(size_t count, size_t size)
{
    void *made = count == 0 || size <= SIZE_MAX / count ? malloc(count * size) : NULL;
    return made != NULL ? memset(made, 0, count * size) : NULL;
}

void *realloc(void *pointer, size_t size)
{
    void *made = malloc(size);
    if (made == NULL || pointer == NULL)
        return made;
    const size_t before = size_of_class(((struct header *)pointer - 1)->class);
    memcpy(made, pointer, before < size ? before : size);
    free(pointer);
    return made;
}

static unsigned char *live[LIVE];
static size_t sizes[LIVE];

/* Checks the live blocks, frees each, and makes new ones. Returns 0, or 1 if one was damaged. */
int homefree_hidden_turn(void)
{
    int damaged = 0;
    for (size_t i = 0; i < LIVE; i++) {
        for (size_t at = 0; live[i] != NULL && at < sizes[i]; at++)
            damaged = damaged || live[i][at] != (unsigned char)i;
        free(live[i]);
        sizes[i] = 16 + (sizes[i] * 7 + i * 37) % 4000;
        live[i] = malloc(sizes[i] / 2);
        live[i] = realloc(live[i], sizes[i]);
        if (live[i] != NULL)
            memset(live[i], (int)i, sizes[i]);
    }
    return damaged;
}

__attribute__((constructor)) static void begin(void)
{
    (void)homefree_hidden_turn();
    free(calloc(10, 10));
}
