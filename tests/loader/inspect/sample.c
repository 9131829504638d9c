/* A module with a little of everything that the reader reads, linked without start files so that it
 * is small: the hostile tests try every byte of it. */
#include "include/allocator_registry.h"

#include <stddef.h>

extern void *malloc(size_t size);
extern int Py_IsInitialized(void);

__thread int sample_counter = 3;
static __thread int sample_hidden;

int sample_api(void);
int sample_api(void)
{
    return ++sample_counter + ++sample_hidden;
}

__attribute__((noinline)) static int sample_local(void)
{
    return Py_IsInitialized();
}

void *PyInit_sample(void);
void *PyInit_sample(void)
{
    return malloc((size_t)sample_local());
}

/* A member of the registry, whose functions are of no importance. */
static int owns(const void *address)
{
    return address == NULL;
}

static void free_block(void *block)
{
    (void)block;
}

static size_t usable_size(const void *block)
{
    return block != NULL;
}

ALLOCATOR_REGISTRY_PUBLISH(sample_member) = {
    ALLOCATOR_REGISTRY_VERSION,
    sizeof(struct allocator_registry),
    "sample",
    "1.0",
    ALLOCATOR_REGISTRY_TELLS_FIRST,
    owns,
    free_block,
    usable_size,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
};
