/*
 * Grows to 30 MiB in small blocks and then by two large ones, gives the small ones back, and ends
 * with the large ones.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCKS = 30000, SIZE = 1024, LARGE = 8 << 20, STEP = 1000 };

static char *blocks[BLOCKS], *volatile large[2];

/* Uses up some time, as work would. */
static void work(long nanoseconds)
{
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000000 + now.tv_nsec - begin.tv_nsec < nanoseconds);
}

int main(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = memset(malloc(SIZE), 1, SIZE);
        if (i % STEP == 0)
            work(5000000);
    }
    for (int i = 0; i < 2; i++) {
        work(30000000);
        large[i] = memset(malloc(LARGE), 1, LARGE);
    }
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    return 0;
}
