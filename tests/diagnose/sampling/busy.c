/*
 * A correct program that keeps guarded samples changing hands: threads that allocate, resize, fill
 * and free, children by fork and vfork meanwhile. "crowded" makes the process use all the mappings
 * that it may have first. Prints what it counted.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, BLOCKS = 64, ROUNDS = 3000, CHILDREN = 12, PAGE = 4096, PAGES = 200000 };

static unsigned next_number(unsigned *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

static int is_filled(const unsigned char *block, size_t size, unsigned char with)
{
    for (size_t i = 0; i < size; i++)
        if (block[i] != with)
            return 0;
    return 1;
}

/* Returns the number of blocks that were not as they should be. */
static long work(unsigned state, int rounds)
{
    unsigned char *blocks[BLOCKS] = {NULL};
    size_t sizes[BLOCKS] = {0};
    long wrong = 0;
    for (int i = 0; i < rounds; i++) {
        const unsigned at = next_number(&state) % BLOCKS;
        const unsigned char with = (unsigned char)at;
        const size_t size = next_number(&state) % 9000;
        wrong += !is_filled(blocks[at], sizes[at], with);
        switch (next_number(&state) % 4) {
        case 0:
            free(blocks[at]);
            blocks[at] = malloc(size);
            break;
        case 1: {
            unsigned char *resized = realloc(blocks[at], size + 1);
            wrong +=
                resized == NULL || !is_filled(resized, sizes[at] < size ? sizes[at] : size, with);
            blocks[at] = resized;
            break;
        }
        case 2:
            free(blocks[at]);
            blocks[at] = calloc(1, size);
            wrong += !is_filled(blocks[at], size, 0);
            break;
        default:
            free(blocks[at]);
            blocks[at] = aligned_alloc(128, (size + 127) & ~(size_t)127);
            wrong += (size_t)blocks[at] % 128 != 0;
            break;
        }
        sizes[at] = blocks[at] != NULL ? size : 0;
        memset(blocks[at], with, sizes[at]);
    }
    for (int i = 0; i < BLOCKS; i++) {
        wrong += !is_filled(blocks[i], sizes[i], (unsigned char)i);
        free(blocks[i]);
    }
    return wrong;
}

static void *run(void *number)
{
    return (void *)work((unsigned)(size_t)number, ROUNDS);
}

/* Takes all mappings but a few. */
static void crowd(void)
{
    char *pages = mmap(NULL, (size_t)PAGES * PAGE, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (size_t i = 0; i < PAGES; i += 2)
        if (mprotect(pages + i * PAGE, PAGE, PROT_READ) != 0) {
            for (size_t back = 2; back <= 200; back += 2)
                (void)mprotect(pages + (i - back) * PAGE, PAGE, PROT_NONE);
            return;
        }
}

int main(int count, char **arguments)
{
    pthread_t threads[THREADS];
    static long wrong, ended; /* vfork() returns twice */
    static bool crowded;
    crowded = count > 1 && strcmp(arguments[1], "crowded") == 0;
    if (crowded)
        crowd();
    for (size_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, run, (void *)(i + 1)) != 0)
            return 2;
    for (int i = 0; i < (crowded ? CHILDREN / 4 : CHILDREN); i++) {
        int status = 1;
        const pid_t child = i % 3 == 0 ? vfork() : fork();
        if (child == 0) {
            if (i % 3 == 0)
                execl("/bin/true", "true", (char *)NULL);
            _exit(work(100, 200) != 0);
        }
        ended += waitpid(child, &status, 0) == child && status == 0;
    }
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        wrong += (long)result;
    }
    printf("%ld wrong, %ld children\n", wrong, ended);
    return 0;
}
