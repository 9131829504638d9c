/*
 * One sample of an allocation-heavy program: prints the seconds of processor time that its work
 * takes, and with --live the kilobytes of memory that a number of live blocks take.
 *
 *   alloc_heavy              trees of nodes with strings, a buffer that grows and shrinks, and
 *                            blocks of mixed sizes that live for a while
 *   alloc_heavy --faults     little of the same work, which frees all blocks by operator delete if
 *                            there is one: every place that allocates crosses
 *   alloc_heavy --live N     N live blocks of 16 to 271 bytes
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { DEPTH = 14, TREES = 40, RESIZES = 200000, SLOTS = 1000, EXCHANGES = 2000000 };

struct node {
    struct node *left, *right;
    char *text;
};

static unsigned state = 1;
static void (*wrong_free)(void *); /* NULL: free() */

static void release(void *block)
{
    if (__builtin_expect(wrong_free != NULL, 0))
        wrong_free(block);
    else
        free(block);
}

static unsigned next_number(void)
{
    state = state * 1664525 + 1013904223;
    return state >> 8;
}

static struct node *grow(int depth)
{
    struct node *node = malloc(sizeof *node);
    size_t length = 8 + next_number() % 256;
    node->text = malloc(length);
    memset(node->text, 1, length < 32 ? length : 32);
    node->left = depth > 0 ? grow(depth - 1) : NULL;
    node->right = depth > 0 ? grow(depth - 1) : NULL;
    return node;
}

static void fell(struct node *node)
{
    if (node == NULL)
        return;
    fell(node->left);
    fell(node->right);
    release(node->text);
    release(node);
}

/* part: of the work; 1: all. */
static void work(int part)
{
    static char *slots[SLOTS];
    for (int i = 0; i < TREES / part; i++)
        fell(grow(DEPTH));
    char *buffer = NULL;
    for (size_t i = 1; i < (size_t)(RESIZES / part); i++) {
        buffer = realloc(buffer, i * 7 % 3000 + 1);
        buffer[0] = 1;
    }
    release(buffer);
    for (int i = 0; i < EXCHANGES / part; i++) {
        char **slot = &slots[next_number() % SLOTS];
        release(*slot);
        *slot = malloc(16 + next_number() % 500);
        **slot = 1;
    }
}

static long memory(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static void live(size_t count)
{
    char **blocks = calloc(count, sizeof *blocks);
    long before = memory();
    for (size_t i = 0; i < count; i++) {
        size_t size = 16 + next_number() % 256;
        blocks[i] = memset(malloc(size), 1, size);
    }
    printf("%ld\n", memory() - before);
    __asm__ volatile("" : : "r"(blocks) : "memory");
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--live") == 0) {
        live(strtoul(argv[2], NULL, 10));
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--faults") == 0) {
        wrong_free = (void (*)(void *))dlsym(RTLD_DEFAULT, "_ZdlPv");
        work(TREES);
        return 0;
    }
    struct timespec before, after;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    work(1);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    printf("%.6f\n",
           (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) / 1e9);
    return 0;
}
