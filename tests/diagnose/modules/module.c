/*
 * A module that allocates and frees. Built alone, under several names; with the shim; and with a
 * real allocator inside, which nobody sees from outside: the module's own calls of malloc() and
 * free() are then calls of functions in the same object.
 */
#include "module.h"

#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void *module_take(size_t size)
{
    void *block = malloc(size);
    __asm__ volatile("" : "+r"(block));
    return block;
}

EXPORTED void module_give(void *ptr)
{
    free(ptr);
    __asm__ volatile("");
}

EXPORTED void module_fault(void)
{
    static char data[64];
    void *ptr = data;
    __asm__ volatile("" : "+r"(ptr));
    free(ptr);
    __asm__ volatile("");
}

EXPORTED char *module_line(FILE *stream)
{
    char *line = malloc(1);
    size_t size = 1;
    return getline(&line, &size, stream) >= 0 ? line : NULL;
}

struct node {
    struct node *next;
    size_t value;
};

EXPORTED size_t module_misses(void *ptr)
{
    struct node first = {.value = *(volatile char *)ptr};
    struct node *volatile next = first.next;
    return next->value + first.value + *(volatile char *)ptr;
}
