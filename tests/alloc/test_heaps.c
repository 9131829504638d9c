/* Heaps of one's own: their blocks are the heap's in every respect, live until they are freed, from
 * anywhere, or their heap is dropped, and a free after that is found. */
#include "death.h"
#include "suite.h"

#include <errno.h>
#include <homefree/homefree.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t sizes[] = {0, 8, 24, 100, 4096, 20000, 40000, 256 << 10, 3 << 20};
enum { SIZES = sizeof sizes / sizeof sizes[0], EACH = 20 };

static struct hf_heap *new_heap(void)
{
    struct hf_heap *heap = NULL;
    must(hf_heap_new(&heap) == 0 && heap != NULL);
    return heap;
}

static int count_one(void *context, void *ptr, size_t size)
{
    must(hf_owns(ptr) && hf_usable_size(ptr) == size);
    ++*(size_t *)context;
    return 0;
}

static size_t blocks_of(const struct hf_heap *heap)
{
    size_t count = 0;
    must(hf_heap_walk(heap, count_one, &count) == 0);
    return count;
}

static void fill(struct hf_heap *heap, char *blocks[SIZES][EACH])
{
    for (size_t i = 0; i < SIZES; i++)
        for (size_t j = 0; j < EACH; j++) {
            blocks[i][j] =
                j % 2 == 0 ? hf_heap_malloc(heap, sizes[i]) : hf_heap_zalloc(heap, sizes[i]);
            must(blocks[i][j] != NULL && hf_usable_size(blocks[i][j]) >= sizes[i]);
            memset(blocks[i][j], (int)j, sizes[i]);
        }
}

static void *free_odd(void *context)
{
    char *(*blocks)[EACH] = context;
    for (size_t i = 0; i < SIZES; i++)
        for (size_t j = 1; j < EACH; j += 2)
            hf_free(blocks[i][j]);
    return NULL;
}

static void live_until_dropped(void *context)
{
    (void)context;
    const size_t others = blocks_of(NULL);
    for (int round = 0; round < 10; round++) {
        struct hf_heap *heap = new_heap();
        char *blocks[SIZES][EACH];
        pthread_t thread;
        fill(heap, blocks);
        must(blocks_of(heap) == (size_t)SIZES * EACH);
        must(pthread_create(&thread, NULL, free_odd, blocks) == 0);
        must(pthread_join(thread, NULL) == 0);
        for (size_t i = 0; i < SIZES; i++)
            hf_free(blocks[i][0]);
        must(blocks_of(heap) == (size_t)SIZES * (EACH / 2 - 1));
        for (size_t i = 0; i < SIZES; i++)
            for (size_t k = 0; k < sizes[i]; k++)
                must(blocks[i][2][k] == 2);
        must(hf_heap_drop(heap) == 0);
        must(blocks_of(NULL) <= others + 1);
    }
}

static void stays_when_it_moves(void *context)
{
    (void)context;
    struct hf_heap *heap = new_heap();
    char *p = hf_heap_malloc(heap, 1);
    for (size_t size = 1; size < 4 << 20; size = 3 * size + 1) {
        p = hf_realloc(p, size);
        must(p != NULL && blocks_of(heap) == 1);
        memset(p, 1, size);
    }
    p = hf_realloc(p, 10);
    must(p != NULL && blocks_of(heap) == 1);
    must(hf_heap_drop(heap) == 0);
}

static void aligned(void *context)
{
    (void)context;
    struct hf_heap *heap = new_heap();
    for (size_t alignment = 1; alignment <= 1 << 20; alignment *= 2)
        must((uintptr_t)hf_heap_memalign(heap, alignment, 100) % alignment == 0);
    errno = 0;
    must(hf_heap_memalign(heap, 24, 100) == NULL && errno == EINVAL);
    errno = 0;
    must(hf_heap_malloc(heap, (size_t)1 << 62) == NULL && errno == ENOMEM);
    must(hf_heap_drop(heap) == 0);
}

static void wrong_calls(void *context)
{
    (void)context;
    must(hf_heap_new(NULL) == -EINVAL && hf_heap_drop(NULL) == 0);
    must(hf_heap_walk(NULL, NULL, NULL) == -EINVAL);
    struct hf_heap *heap = new_heap();
    must(hf_heap_drop(heap) == 0);
    must(hf_heap_drop(heap) == -EINVAL);
}

static int stop(void *context, void *ptr, size_t size)
{
    (void)context, (void)ptr, (void)size;
    return 17;
}

static void ended_by_the_visitor(void *context)
{
    (void)context;
    struct hf_heap *heap = new_heap();
    must(hf_heap_walk(heap, stop, NULL) == 0);
    must(hf_heap_malloc(heap, 10) != NULL && hf_heap_walk(heap, stop, NULL) == 17);
    must(hf_heap_drop(heap) == 0);
}

static void goes_on_in_a_child(void *context)
{
    (void)context;
    struct hf_heap *heap = new_heap();
    char *blocks[SIZES][EACH];
    int status;
    fill(heap, blocks);
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        must(blocks_of(heap) == (size_t)SIZES * EACH);
        (void)free_odd(blocks);
        must(hf_heap_malloc(heap, 100) != NULL && hf_heap_drop(heap) == 0);
        _exit(0);
    }
    must(waitpid(child, &status, 0) == child && status == 0);
    must(blocks_of(heap) == (size_t)SIZES * EACH && hf_heap_drop(heap) == 0);
}

static void *allocate(void *heap)
{
    char *some[100];
    for (int round = 0; round < times(100); round++) {
        for (size_t i = 0; i < 100; i++)
            some[i] = memset(hf_heap_malloc(heap, i * 10 + 1), 1, i * 10 + 1);
        for (size_t i = 0; i < 100; i++)
            hf_free(some[i]);
    }
    return NULL;
}

static void shared_by_threads(void *context)
{
    (void)context;
    struct hf_heap *heap = new_heap();
    pthread_t threads[3];
    for (size_t i = 0; i < 3; i++)
        must(pthread_create(&threads[i], NULL, allocate, heap) == 0);
    for (size_t i = 0; i < 3; i++)
        must(pthread_join(threads[i], NULL) == 0);
    must(blocks_of(heap) == 0 && hf_heap_drop(heap) == 0);
}

enum { LEFT_SIZE = 3000 };

static void *leave_one(void *unused)
{
    (void)unused;
    return hf_malloc(LEFT_SIZE);
}

/* A thread that ended left its block in a span with room for more. */
static void spares_what_threads_left(void *context)
{
    (void)context;
    struct hf_heap *heap = new_heap();
    pthread_t thread;
    void *left;
    must(pthread_create(&thread, NULL, leave_one, NULL) == 0);
    must(pthread_join(thread, &left) == 0);
    for (int i = 0; i < EACH; i++)
        must(hf_heap_malloc(heap, LEFT_SIZE) != NULL);
    must(blocks_of(heap) == EACH && hf_heap_drop(heap) == 0);
    must(hf_usable_size(left) >= LEFT_SIZE);
    hf_free(left);
}

static const void *block_at(const char *p, size_t *size)
{
    struct hf_owner owner = {.size = sizeof owner};
    must(hf_owner_of(p, &owner) == 0 && owner.kind == HF_OWNER_HEAP);
    *size = owner.block_size;
    return owner.block;
}

static void known_inside(void *context)
{
    (void)context;
    struct hf_heap *heap = new_heap();
    char *blocks[SIZES][EACH];
    fill(heap, blocks);
    for (size_t i = 0; i < SIZES; i++) {
        char *p = blocks[i][EACH / 2];
        const size_t usable = hf_usable_size(p);
        size_t size;
        for (size_t offset = 0; offset < usable; offset = offset * 2 + 1)
            must(block_at(p + offset, &size) == p && size == usable);
        must(block_at(p + (usable != 0 ? usable - 1 : 0), &size) == p && size == usable);
        must(usable == 0 || block_at(p + usable, &size) != p);
        must(block_at(p - 1, &size) != p);
        hf_free(p);
        must(block_at(p + usable / 2, &size) == NULL && size == 0);
    }
    must(hf_heap_drop(heap) == 0);
    size_t size;
    for (size_t i = 0; i < SIZES; i++)
        must(block_at(blocks[i][0] + sizes[i] / 2, &size) == NULL && size == 0);
}

static void (*const parts[])(void *context) = {
    live_until_dropped, stays_when_it_moves,      aligned,
    wrong_calls,        ended_by_the_visitor,     goes_on_in_a_child,
    shared_by_threads,  spares_what_threads_left, known_inside,
};
enum { PARTS = sizeof parts / sizeof parts[0] };

static int part(void)
{
    for (size_t i = 0; i < PARTS; i++)
        parts[i](NULL);
    return 0;
}

SELF_TEST(by_default, "HOMEFREE_CONF=checks:default", "part")
SELF_TEST(hardened, "HOMEFREE_CONF=checks:hardened", "part")
SELF_TEST(full, "HOMEFREE_CONF=checks:full", "part")

static void free_twice(void *size)
{
    struct hf_heap *heap = new_heap();
    char *p = hf_heap_malloc(heap, *(size_t *)size);
    hf_free(p);
    hf_free(p);
}

static void free_after_the_drop(void *size)
{
    struct hf_heap *heap = new_heap();
    char *p = hf_heap_malloc(heap, *(size_t *)size);
    must(hf_heap_drop(heap) == 0);
    hf_free(p);
}

START_TEST(errors_are_found)
{
    size_t few[] = {8, 4096, 256 << 10};
    for (size_t i = 0; i < 3; i++) {
        assert_killed(outcome_of_call(free_twice, &few[i]), SIGABRT, "is free already");
        assert_killed(outcome_of_call(free_after_the_drop, &few[i]), SIGABRT,
                      "homefree: fatal: free(");
    }
}
END_TEST

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        return part();
    return RUN_SUITE(by_default, hardened, full, errors_are_found);
}
