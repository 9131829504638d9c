/* A block that lies where a block of the next size class was cached before is no double free: the
 * word above an empty cache bin belongs to the neighbouring bin, and may still hold that address.
 */
#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <pthread.h>

#define BLOCKS 1500
#define LEVELS 200

static void *blocks[2 * BLOCKS];
static size_t count;

static void allocate_all(size_t size, size_t number)
{
    for (count = 0; count < number; count++)
        must((blocks[count] = hf_malloc(size)) != NULL);
}

static void *free_all(void *unused)
{
    (void)unused;
    hf_free(hf_malloc(1));
    for (size_t i = 0; i < count; i++)
        hf_free(blocks[i]);
    return NULL;
}

/* Leaves the blocks' addresses in the bin's memory while the blocks return to their slabs, because
 * the ending thread frees them. */
static void use_and_return(size_t size)
{
    pthread_t thread;
    allocate_all(size, BLOCKS);
    free_all(NULL);
    allocate_all(size, BLOCKS);
    must(pthread_create(&thread, NULL, free_all, NULL) == 0);
    must(pthread_join(thread, NULL) == 0);
}

/* Frees a block of this size at each fill level of the bin; at one level the bin is empty. */
static void free_at_each_level(size_t size)
{
    static void *kept[LEVELS];
    allocate_all(size, 2 * BLOCKS); /* the same number of bytes: the same pages again */
    for (size_t level = 0; level < LEVELS; level++) {
        for (size_t i = 0; i < count; i++) {
            hf_free(blocks[i]);
            must((blocks[i] = hf_malloc(size)) != NULL);
        }
        kept[level] = hf_malloc(size);
    }
    for (size_t level = 0; level < LEVELS; level++)
        hf_free(kept[level]);
    free_all(NULL);
}

static void use_neighbours(void *unused)
{
    static const size_t classes[] = {16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256};
    (void)unused;
    for (size_t i = 1; i < sizeof classes / sizeof classes[0]; i++) {
        use_and_return(classes[i]);
        free_at_each_level(classes[i - 1]);
    }
}

CALL_TEST(good_programs_live, use_neighbours, NULL)

int main(void)
{
    return RUN_SUITE(good_programs_live);
}
