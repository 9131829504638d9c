/* checks:hardened in a process that can no longer drop pages, or change who may touch them without
 * a mapping, or map any: because they are locked, or a sandbox forbids it. Nothing is taken for a
 * write after free, and no page that nobody may touch, or that is gone, is handed out. */
#include "death.h"
#include "refuse.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { BLOCKS = 512, ROUNDS = 60000 };

/* Of all sizes, small ones mostly, so that what large blocks had becomes spans and comes back. */
static void use(void)
{
    static struct {
        char *at;
        size_t size;
    } blocks[BLOCKS];
    uint64_t number = 88172645463325252;
    for (size_t i = 0; i < ROUNDS; i++) {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        const size_t at = number % BLOCKS;
        hf_free(blocks[at].at);
        blocks[at].size = 1 + (number >> 40) % (1UL << (number >> 20) % 19);
        blocks[at].at = hf_malloc(blocks[at].size);
        must(blocks[at].at != NULL);
        memset(blocks[at].at, (int)i, blocks[at].size);
    }
    for (size_t at = 0; at < BLOCKS; at++) {
        hf_free(blocks[at].at);
        blocks[at].at = NULL;
    }
}

/* Small blocks, in far more memory than the heap has at hand. */
static void fill_spans(void)
{
    enum { SIZE = 64, COUNT = (24 << 20) / SIZE };
    static void *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        must((blocks[i] = hf_malloc(SIZE)) != NULL);
    for (size_t i = 0; i < COUNT; i++)
        hf_free(blocks[i]);
}

/* Blocks so large that their pages are dropped, and no cache keeps them: what they held is still
 * there when spans get them. */
static void use_of_large(void)
{
    enum { SIZE = 5 << 20, COUNT = 24 };
    void *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        must((blocks[i] = hf_malloc(SIZE)) != NULL);
        memset(blocks[i], 1, SIZE);
    }
    for (size_t i = 0; i < COUNT; i++)
        hf_free(blocks[i]);
    fill_spans();
}

/* Live blocks of a heap that ends. */
static void use_of_dropped(void)
{
    enum { SIZE = 64, COUNT = (4 << 20) / SIZE };
    struct hf_heap *heap;
    must(hf_heap_new(&heap) == 0);
    for (size_t i = 0; i < COUNT; i++) {
        void *block = hf_heap_malloc(heap, SIZE);
        must(block != NULL);
        memset(block, 1, SIZE);
    }
    must(hf_heap_drop(heap) == 0);
    fill_spans();
}

static void in_a_sandbox(void)
{
    static const unsigned calls[] = {SYS_madvise, 0};
    use();
    refuse(calls);
    use();
    use_of_large();
    use_of_dropped();
}

static void locked(void)
{
    use();
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        return; /* not allowed */
    use();
    use_of_large();
    use_of_dropped();
    must(munlockall() == 0);
    use();
}

/* The kernel moves the pages of blocks that grow. False if there is no more memory. */
static bool grow_blocks(void)
{
    enum { BEFORE = 6 << 20, GROWN = 12 << 20, TIMES = 16 };
    for (int i = 0; i < TIMES; i++) {
        char *ptr = hf_malloc(BEFORE);
        if (ptr == NULL)
            return false;
        memset(ptr, 1, BEFORE);
        char *grown = hf_realloc(ptr, GROWN);
        if (grown == NULL) {
            hf_free(ptr);
            return false;
        }
        must(grown[0] == 1 && grown[BEFORE - 1] == 1);
        memset(grown, 2, GROWN);
        hf_free(grown);
    }
    return true;
}

/* Where the pages were, there are none then. */
static void unmapped(void)
{
    enum { SIZE = 300000 };
    static const unsigned calls[] = {SYS_mmap, 0};
    must(grow_blocks());
    refuse(calls);
    while (grow_blocks())
        continue;
    for (char *ptr; (ptr = hf_malloc(SIZE)) != NULL;)
        memset(ptr, 1, SIZE);
}

START_TEST(in_a_sandbox_and_locked)
{
    assert_succeeds(OUTCOME_OF_SELF("HOMEFREE_CONF=checks:hardened", "sandbox"));
    assert_succeeds(OUTCOME_OF_SELF("HOMEFREE_CONF=checks:hardened", "locked"));
    assert_succeeds(OUTCOME_OF_SELF("HOMEFREE_CONF=checks:hardened", "unmapped"));
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1) {
        (strcmp(argv[1], "locked") == 0     ? locked
         : strcmp(argv[1], "unmapped") == 0 ? unmapped
                                            : in_a_sandbox)();
        return 0;
    }
    return RUN_SUITE(in_a_sandbox_and_locked);
}
