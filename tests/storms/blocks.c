/* Threads, and the blocks that they pass on: see storms.h. */
#include "storms.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- threads ---- */

static void (*work_of_all)(unsigned number);

static void *run(void *number)
{
    while (!storm_over)
        work_of_all((unsigned)(uintptr_t)number);
    return NULL;
}

void storm_threads(unsigned count, void (*work)(unsigned number))
{
    pthread_t threads[CROWD_MAX];
    work_of_all = work;
    for (unsigned i = 0; i < count; i++)
        STORM_MUST(pthread_create(&threads[i], NULL, run, (void *)(uintptr_t)(i + 1)) == 0);
    storm_wait();
    for (unsigned i = 0; i < count; i++)
        STORM_MUST(pthread_join(threads[i], NULL) == 0);
}

/* ---- blocks ---- */

static unsigned char byte_at(size_t position, size_t size)
{
    return (unsigned char)(position * 131 + size);
}

/* The size, then the bytes; of a large block only the first and the last ones. */
enum { EDGE = 600 };

void storm_block_fill(void *block, size_t size)
{
    unsigned char *bytes = block;
    memcpy(bytes, &size, sizeof size);
    for (size_t i = sizeof size; i < size; i++) {
        if (i == EDGE && size > (size_t)2 * EDGE)
            i = size - EDGE;
        bytes[i] = byte_at(i, size);
    }
}

static void check_part(const unsigned char *bytes, size_t from, size_t until, size_t size)
{
    for (size_t i = from; i < until; i++)
        if (bytes[i] != byte_at(i, size))
            storm_failed("a block", "is not as it was filled");
}

size_t storm_block_check(const void *block)
{
    size_t size;
    memcpy(&size, block, sizeof size);
    if (size < SMALLEST_BLOCK || size > (size_t)1 << 28)
        storm_failed("a block", "has lost its size");
    if (size > (size_t)2 * EDGE) {
        check_part(block, sizeof size, EDGE, size);
        check_part(block, size - EDGE, size, size);
    } else {
        check_part(block, sizeof size, size, size);
    }
    return size;
}

enum { PLACES = 4096 };
static _Atomic(void *) places[PLACES];

bool heap_serves_all(void)
{
    void *volatile block = malloc(1);
    const bool serves = hf_owns(block);
    free(block);
    return serves;
}

static void *allocate(uint64_t *random, const struct user *module, size_t size)
{
    switch (storm_random(random) % (module != NULL ? 8 : 6)) {
    case 0:
        return malloc(size);
    case 1:
        return calloc(1, size);
    case 2:
        return memalign(64, size);
    case 3:
        return hf_malloc(size);
    case 4:
        return hf_memalign(128, size);
    case 5:
        return realloc(hf_malloc(SMALLEST_BLOCK), size);
    case 6:
        return module->acquire(size);
    default:
        return module->resize_array(NULL, 1, size);
    }
}

static void *resize(uint64_t *random, const struct user *module, void *block, size_t size)
{
    switch (storm_random(random) % (module != NULL ? 5 : 3)) {
    case 0:
        return realloc(block, size);
    case 1:
        return hf_realloc(block, size);
    case 2:
        return reallocarray(block, 1, size);
    case 3:
        return module->resize(block, size);
    default:
        return module->table->resize(block, size);
    }
}

static void release(uint64_t *random, const struct user *module, void *block)
{
    switch (storm_random(random) % (module != NULL ? 6 : 2)) {
    case 0:
        free(block);
        break;
    case 1:
        hf_free(block);
        break;
    case 2:
        module->release(block);
        break;
    case 3:
        module->constant->release(block);
        break;
    case 4:
        module->table->release(block);
        break;
    default:
        STORM_MUST(module->measure(block) >= SMALLEST_BLOCK);
        module->release(block);
        break;
    }
}

static size_t random_size(uint64_t *random)
{
    const unsigned shift = storm_random(random) % 14;
    const size_t size = SMALLEST_BLOCK + storm_random(random) % ((size_t)32 << shift);
    return storm_random(random) % 8 == 0 ? size : size % 3000 + SMALLEST_BLOCK;
}

void storm_exchange(uint64_t *random, const struct user *module)
{
    const size_t size = random_size(random);
    void *block = allocate(random, module, size);
    STORM_MUST(block != NULL);
    storm_block_fill(block, size);
    void *taken = atomic_exchange(&places[storm_random(random) % PLACES], block);
    figures.operations++;
    if (taken == NULL)
        return;
    const size_t old = storm_block_check(taken);
    if (storm_random(random) % 3 == 0) {
        /* The first bytes say the old size: only what is left of it can be looked at. */
        const size_t wanted = random_size(random);
        const bool inside = hf_owns(taken);
        unsigned char *moved = resize(random, module, taken, wanted);
        STORM_MUST(moved != NULL);
        if (wanted >= old)
            STORM_MUST(storm_block_check(moved) == old);
        /* A block of the heap may move to libc while another thread takes long to fork
         * (docs/limits.md), but never the other way. */
        if (hf_owns(moved) && !inside)
            storm_failed("a resized block", "changed its owner");
        taken = moved;
        figures.operations++;
    }
    release(random, module, taken);
    figures.operations++;
}

void storm_blocks_end(void)
{
    for (int i = 0; i < PLACES; i++) {
        void *block = atomic_exchange(&places[i], NULL);
        if (block != NULL) {
            (void)storm_block_check(block);
            free(block);
        }
    }
}

void storm_blocks_in_child(void)
{
    uint64_t random = 99;
    for (int i = 0; i < 100; i++)
        storm_exchange(&random, NULL);
    storm_blocks_end();
}

void storm_load(uint64_t *random, const char *path)
{
    int mode = storm_random(random) % 2 == 0 ? RTLD_LAZY : RTLD_NOW;
    if (storm_random(random) % 4 == 0)
        mode |= RTLD_DEEPBIND;
    void *handle = dlopen(path, mode | RTLD_LOCAL);
    if (handle == NULL)
        storm_failed(path, dlerror());
    user_function *function = (user_function *)dlsym(handle, "user");
    STORM_MUST(function != NULL);
    for (int i = 0; i < 20; i++)
        storm_exchange(random, function());
    STORM_MUST(dlclose(handle) == 0);
    figures.loads++;
}
