/*
 * A module with a real allocator inside, which nobody sees from outside: the module's own calls of
 * malloc() and free() are calls of functions in the same object.
 */
#include <stddef.h>
#include <stdlib.h>

void *private_take(size_t size);
void private_give(void *ptr);

__attribute__((visibility("default"))) void *private_take(size_t size)
{
    void *block = malloc(size);
    __asm__ volatile("" : "+r"(block));
    return block;
}

__attribute__((visibility("default"))) void private_give(void *ptr)
{
    free(ptr);
    __asm__ volatile("");
}
