/*
 * A program that walks over its heap and stops, for who walks over it from outside to find the
 * same. It says "ready PID" and waits for a byte on stdin; then threads of it have allocated,
 * freed, and freed each other's blocks, and it raises SIGSTOP. When it goes on, it prints the
 * address and size of each block that hf_heap_walk() found before, and ends. What it needs for that
 * is not the heap's.
 */
#include <homefree/homefree.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { THREADS = 3, BLOCKS = 3000, STEPS = 40000, ROOM = 1 << 16 };

struct block {
    const void *at;
    size_t size;
};

static void *blocks[THREADS][BLOCKS];
static struct block *found;
static size_t count;
static pthread_barrier_t begun, ended;

static size_t draw_size(unsigned *random)
{
    const unsigned kind = (unsigned)rand_r(random) % 100;
    return (size_t)rand_r(random) % (kind < 85 ? 1000 : kind < 98 ? 30000 : 2000000);
}

static void *work(void *context)
{
    const size_t self = (size_t)(uintptr_t)context;
    unsigned random = (unsigned)self + 1;
    for (size_t step = 0; step < STEPS; step++) {
        void **block = &blocks[self][(size_t)rand_r(&random) % BLOCKS];
        if (*block != NULL && rand_r(&random) % 8 == 0)
            *block = hf_realloc(*block, draw_size(&random) + 1);
        else if (*block != NULL) {
            hf_free(*block);
            *block = NULL;
        } else
            *block = step % 16 != 0 ? hf_malloc(draw_size(&random))
                                    : hf_aligned_alloc((size_t)64 << step / 16 % 12, 3000);
    }
    pthread_barrier_wait(&begun);
    for (size_t i = 0; i < BLOCKS; i += 3) { /* the next thread's, which is still there */
        hf_free(blocks[(self + 1) % THREADS][i]);
        blocks[(self + 1) % THREADS][i] = NULL;
    }
    pthread_barrier_wait(&ended);
    if (self % 2 == 0)
        pause();
    return NULL;
}

static int note(void *context, void *ptr, size_t size)
{
    (void)context;
    if (count == ROOM)
        return 1;
    found[count++] = (struct block){ptr, size};
    return 0;
}

int main(void)
{
    pthread_t threads[THREADS];
    char byte;
    found = mmap(NULL, ROOM * sizeof *found, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    pthread_barrier_init(&begun, NULL, THREADS);
    pthread_barrier_init(&ended, NULL, THREADS + 1);
    for (size_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i) != 0)
            abort();
    pthread_barrier_wait(&ended);
    for (size_t i = 1; i < THREADS; i += 2)
        pthread_join(threads[i], NULL);
    printf("ready %d\n", (int)getpid());
    if (fflush(stdout) != 0 || read(STDIN_FILENO, &byte, 1) != 1 ||
        hf_heap_walk(NULL, note, NULL) != 0 || raise(SIGSTOP) != 0)
        abort();
    for (size_t i = 0; i < count; i++)
        printf("%zu %zu\n", (size_t)(uintptr_t)found[i].at, found[i].size);
    fflush(stdout);
    _exit(0); /* threads wait */
}
