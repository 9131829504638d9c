/* A large block that grows takes its pages along: the process never has both copies, and nothing of
 * the contents is lost, whatever lies in the block's way and however it was allocated. */
#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB  ((size_t)1 << 20)
#define PAGE ((size_t)sysconf(_SC_PAGESIZE))

/* The most memory that the process ever had, in bytes. */
static size_t most_resident(void)
{
    char line[256];
    size_t kibibytes = 0;
    FILE *status = fopen("/proc/self/status", "re");
    must(status != NULL);
    while (kibibytes == 0 && fgets(line, sizeof line, status) != NULL)
        (void)sscanf(line, "VmHWM: %zu", &kibibytes);
    must(fclose(status) == 0 && kibibytes != 0);
    return kibibytes << 10;
}

static void fill(char *block, size_t from, size_t to)
{
    for (size_t at = from; at < to; at += 512)
        *(size_t *)(void *)(block + at) = at;
}

static void check(const char *block, size_t size)
{
    for (size_t at = 0; at < size; at += 512)
        must(*(const size_t *)(const void *)(block + at) == at);
}

/* Something small is allocated in between, so that the block cannot stay. */
static int grow(size_t step, size_t size)
{
    char *block = NULL, *others[1024] = {NULL};
    size_t old = 0, count = 0;
    for (size_t now = step; now <= size; old = now, now += step) {
        block = hf_realloc(block, now);
        must(block != NULL && (uintptr_t)block % 16 == 0 && hf_usable_size(block) >= now);
        fill(block, old, now);
        others[count] = hf_malloc(300000 + count * 7);
        must(others[count] != NULL);
        others[count++][0] = 1;
    }
    check(block, old);
    must(most_resident() < size + size * 3 / 10);
    hf_free(block);
    while (count > 0)
        hf_free(others[--count]);
    return 0;
}

/* Blocks of many sizes, moved at once by some and by much; freed ones come back in between. */
static void move_many(void *unused)
{
    enum { BLOCKS = 20 };
    char *blocks[BLOCKS] = {NULL};
    size_t sizes[BLOCKS];
    unsigned seed = 1;
    (void)unused;
    for (int turn = 0; turn < 400; turn++) {
        const size_t i = (size_t)rand_r(&seed) % BLOCKS;
        if (blocks[i] == NULL) {
            sizes[i] = 3 * MIB + (size_t)rand_r(&seed) % (6 * MIB) / 512 * 512;
            blocks[i] = turn % 2 == 0 ? hf_malloc(sizes[i]) : hf_aligned_alloc(2 * MIB, sizes[i]);
            must(blocks[i] != NULL);
            fill(blocks[i], 0, sizes[i]);
            continue;
        }
        if (turn % 7 == 0) /* a mapping of its own in the middle */
            (void)madvise(blocks[i] + (PAGE - (uintptr_t)blocks[i] % PAGE) + MIB, MIB,
                          MADV_DONTDUMP);
        const size_t size = sizes[i] + (size_t)rand_r(&seed) % (20 * MIB) / 512 * 512;
        blocks[i] = hf_realloc(blocks[i], size);
        must(blocks[i] != NULL && hf_owns(blocks[i]) && hf_usable_size(blocks[i]) >= size);
        check(blocks[i], sizes[i]);
        fill(blocks[i], sizes[i], size);
        sizes[i] = size;
        if (rand_r(&seed) % 3 == 0) {
            check(blocks[i], sizes[i]);
            hf_free(blocks[i]);
            blocks[i] = NULL;
        }
    }
}

/* Zero pages may be handed out as such only if they are. */
static void gives_zeros_afterwards(void *unused)
{
    (void)unused;
    for (size_t size = 5 * MIB; size < 100 * MIB; size += 9 * MIB) {
        char *block = hf_malloc(size);
        must(block != NULL);
        memset(block, 1, size);
        block = hf_realloc(block, 2 * size);
        must(block != NULL);
        memset(block + size, 1, size);
        hf_free(block);
        block = hf_calloc(1, size);
        must(block != NULL);
        for (size_t at = 0; at < size; at++)
            must(block[at] == 0);
        hf_free(block);
    }
}

/* What the program has advised of a block's pages ends with the block: a child sees whatever comes
 * to lie there next. */
static void forgets_advice(void *unused)
{
    enum { BLOCKS = 6 };
    char *others[BLOCKS], *block = hf_malloc(64 * MIB);
    (void)unused;
    must(block != NULL);
    fill(block, 0, 64 * MIB);
    must(madvise(block + (PAGE - (uintptr_t)block % PAGE) + MIB, 8 * MIB, MADV_DONTFORK) == 0);
    block = hf_realloc(block, 128 * MIB);
    must(block != NULL);
    check(block, 64 * MIB);
    for (int i = 0; i < BLOCKS; i++) {
        others[i] = hf_malloc(60 * MIB);
        must(others[i] != NULL);
        fill(others[i], 0, 60 * MIB);
    }
    const pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        for (int i = 0; i < BLOCKS; i++)
            check(others[i], 60 * MIB);
        _exit(0);
    }
    int status;
    must(waitpid(child, &status, 0) == child && status == 0);
}

SELF_TEST(by_a_mebibyte, NULL, "1", "200")
SELF_TEST(by_seven, NULL, "7", "490")
SELF_TEST(with_guards, "HOMEFREE_CONF=checks:full", "7", "490")
SELF_TEST(in_a_small_region, "HOMEFREE_CONF=region:1G", "5", "200")
CALL_TEST(many, move_many, NULL)
CALL_TEST(zeros, gives_zeros_afterwards, NULL)
CALL_TEST(advice, forgets_advice, NULL)

int main(int argc, char **argv)
{
    if (argc > 2)
        return grow(strtoul(argv[1], NULL, 10) * MIB, strtoul(argv[2], NULL, 10) * MIB);
    return RUN_SUITE(by_a_mebibyte, by_seven, with_guards, in_a_small_region, many, zeros, advice);
}
