/*
 * An allocator that keeps all duties of the registry's members, and, with WRONG, one that breaks
 * one of them. Blocks of 16 bytes to 64 MiB, each size in a range of its own, with a byte of state
 * for each that lies elsewhere.
 */
#include "allocator_registry.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    RIGHT,
    CLAIMS_ALL,
    DENIES_LARGE,
    DENIES_INSIDE,
    READS_FOREIGN,
    LOCKS,
    INNER_BLOCKS,
    DEAD_BLOCKS,
    CHANGES_ERRNO,
    USABLE_SMALL,
    USABLE_LARGE,
    FORGETS,
    UNALIGNED,
    ONE_THREAD,
    LINEAR,
    TRIMS_LIVE,
    FILLS_ALL,
    REFUSES_SHORT,
    WALKS_FEW,
    OTHERS_FUNCTION,
    OTHER_VERSION,
    LONG_NAME
};
#ifndef WRONG
#    define WRONG RIGHT
#endif
#ifndef NAME
#    define NAME "wrong"
#endif
#ifndef MORE_FLAGS
#    define MORE_FLAGS 0
#endif
#ifndef READY
#    define READY NULL
#endif

enum { FIRST = 4, LAST = 26, CLASS_BITS = 32 };
#define RANGE ((size_t)1 << CLASS_BITS)

/* Set once; `base` is published last. */
static unsigned char *base;
static unsigned char *states[LAST + 1];
static uint32_t *links[LAST + 1];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t used[LAST + 1], freed[LAST + 1]; /* links are numbers plus one */
static uint64_t live;
static pthread_t first_thread;

static void *reserve(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    if (at == MAP_FAILED)
        abort();
    return at;
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

static void start(void)
{
    unsigned char *all = reserve(RANGE * (LAST + 2));
    all += -(uintptr_t)all & (RANGE - 1);
    for (int i = FIRST; i <= LAST; i++) {
        states[i] = reserve(RANGE >> i);
        links[i] = reserve((RANGE >> i) * sizeof *links[i]);
    }
    first_thread = pthread_self();
    pthread_atfork(before_fork, after_fork, after_fork);
    __atomic_store_n(&base, all, __ATOMIC_RELEASE);
}

static int class_of(size_t size)
{
    int class = FIRST;
    while ((size_t)1 << class < size)
        class ++;
    return class;
}

static void *allocate(size_t size, size_t alignment)
{
    const int class = class_of(alignment > size && WRONG != UNALIGNED ? alignment : size) +
                      (WRONG == USABLE_LARGE);
    if (size > (size_t)1 << LAST || class > LAST) {
        errno = ENOMEM;
        return NULL;
    }
    pthread_mutex_lock(&lock);
    if (base == NULL)
        start();
    uint32_t number = freed[class];
    if (number != 0)
        freed[class] = links[class][--number];
    else if (used[class] < RANGE >> class)
        number = used[class]++;
    live += (size_t)1 << class;
    __atomic_store_n(&states[class][number], 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    return base + RANGE * (size_t) class + ((size_t)number << class);
}

static int owns(const void *address)
{
    const unsigned char *start_of_all = __atomic_load_n(&base, __ATOMIC_ACQUIRE);
    const size_t offset = (uintptr_t)address - (uintptr_t)start_of_all;
    const size_t class = offset >> CLASS_BITS;
    if (WRONG == CLAIMS_ALL && start_of_all != NULL && address != NULL)
        return ALLOCATOR_REGISTRY_MINE;
    if (WRONG == READS_FOREIGN && (uintptr_t)address % 16 == 0 && address != NULL &&
        (uintptr_t)address >> 47 == 0 && ((const volatile unsigned char *)address)[-1] == 103)
        return ALLOCATOR_REGISTRY_NOT_MINE;
    if (WRONG == LOCKS) {
        pthread_mutex_lock(&lock);
        pthread_mutex_unlock(&lock);
    }
    static volatile size_t sum;
    for (int i = FIRST; WRONG == LINEAR && i <= LAST; i++)
        for (uint32_t j = 0; j < used[i]; j++)
            sum += states[i][j];
    if (start_of_all == NULL || class < FIRST || class > LAST)
        return ALLOCATOR_REGISTRY_NOT_MINE;
    const size_t number = (offset & (RANGE - 1)) >> class;
    const size_t inside = offset & (((size_t)1 << class) - 1);
    if (WRONG == DENIES_LARGE && class > 20)
        return ALLOCATOR_REGISTRY_NOT_MINE;
    if (WRONG == DENIES_INSIDE && inside != 0)
        return ALLOCATOR_REGISTRY_NOT_MINE;
    if (WRONG != DEAD_BLOCKS && __atomic_load_n(&states[class][number], __ATOMIC_ACQUIRE) == 0)
        return ALLOCATOR_REGISTRY_NO_BLOCK;
    return inside == 0 || WRONG == INNER_BLOCKS ? ALLOCATOR_REGISTRY_BLOCK
                                                : ALLOCATOR_REGISTRY_INSIDE;
}

static size_t class_at(const void *block)
{
    return ((uintptr_t)block - (uintptr_t)base) >> CLASS_BITS;
}

static void free_block(void *block)
{
    const size_t class = class_at(block);
    const size_t number = ((uintptr_t)block - (uintptr_t)base - RANGE * class) >> class;
    if (WRONG == ONE_THREAD && !pthread_equal(first_thread, pthread_self()))
        abort();
    pthread_mutex_lock(&lock);
    __atomic_store_n(&states[class][number], 0, __ATOMIC_RELEASE);
    links[class][number] = freed[class];
    freed[class] = (uint32_t)number + 1;
    live -= (size_t)1 << class;
    pthread_mutex_unlock(&lock);
    if (WRONG == CHANGES_ERRNO)
        errno = EINVAL;
}

static size_t usable_size(const void *block)
{
    const size_t size = (size_t)1 << class_at(block);
    return WRONG == USABLE_SMALL ? size / 4 : WRONG == USABLE_LARGE ? size * 2 : size;
}

static void *resize(void *block, size_t size)
{
    void *moved = allocate(size, 0);
    const size_t old = (size_t)1 << class_at(block), kept = old < size ? old : size;
    if (moved == NULL)
        return NULL;
    memcpy(moved, block, WRONG == FORGETS ? kept / 2 : kept);
    free_block(block);
    return moved;
}

static int walk(int (*visit)(const void *start, size_t size, int what, void *context),
                void *context)
{
    int result = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = FIRST; i <= LAST && result == 0; i++)
        for (size_t j = 0; j < used[i] && result == 0; j += WRONG == WALKS_FEW ? 2 : 1)
            result =
                visit(base + RANGE * i + (j << i), (size_t)1 << i,
                      states[i][j] != 0 ? ALLOCATOR_REGISTRY_BLOCK : ALLOCATOR_REGISTRY_NO_BLOCK,
                      context);
    pthread_mutex_unlock(&lock);
    return result;
}

static void trim(void)
{
    const int saved_errno = errno;
    for (size_t i = 12; i <= LAST; i++)
        for (size_t j = 0; j < used[i]; j++)
            if (states[i][j] == 0 || WRONG == TRIMS_LIVE)
                madvise(base + RANGE * i + (j << i), (size_t)1 << i, MADV_DONTNEED);
    errno = saved_errno;
}

static int statistics(struct allocator_registry_statistics *out)
{
    const struct allocator_registry_statistics ours = {out->size, live, live};
    if (out->size < sizeof ours && WRONG == REFUSES_SHORT)
        return -1;
    memcpy(out, &ours, out->size < sizeof ours && WRONG != FILLS_ALL ? out->size : sizeof ours);
    return 0;
}

__attribute__((unused)) static int never_ready(void)
{
    return 0;
}

ALLOCATOR_REGISTRY_PUBLISH(wrong_member) = {
    WRONG == OTHER_VERSION ? 2 : ALLOCATOR_REGISTRY_VERSION,
    sizeof(struct allocator_registry),
    WRONG == LONG_NAME ? "a name that goes on and on, and then on for longer than sixty-three bytes"
                       : NAME,
    NULL,
    ALLOCATOR_REGISTRY_TELLS_FIRST | ALLOCATOR_REGISTRY_TELLS_DEAD | MORE_FLAGS,
    owns,
    WRONG == OTHERS_FUNCTION ? free : free_block,
    usable_size,
    resize,
    allocate,
    READY,
    walk,
    trim,
    statistics,
};
