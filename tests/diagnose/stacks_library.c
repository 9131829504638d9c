/* Allocates through three functions, whose names the report must show. */
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void *library_outer(size_t size);
EXPORTED void *library_other(size_t size);

static __attribute__((noinline)) void *library_inner(size_t size)
{
    void *ptr = malloc(size);
    __asm__ volatile("" : "+r"(ptr));
    return ptr;
}

static __attribute__((noinline)) void *library_middle(size_t size)
{
    void *ptr = library_inner(size + 1);
    __asm__ volatile("" : "+r"(ptr));
    return ptr;
}

void *library_outer(size_t size)
{
    void *ptr = library_middle(size);
    __asm__ volatile("" : "+r"(ptr));
    return ptr;
}

/* Differs from the one above, so that they are not folded. */
void *library_other(size_t size)
{
    void *ptr = library_middle(size + 8);
    __asm__ volatile("" : "+r"(ptr));
    return ptr;
}
