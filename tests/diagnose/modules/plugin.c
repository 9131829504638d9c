/*
 * A module that is loaded under several names, at the same addresses: allocates, and frees what is
 * no block.
 */
#include <stddef.h>
#include <stdlib.h>

void *plugin_take(size_t size);
void plugin_fault(void);

__attribute__((visibility("default"))) void *plugin_take(size_t size)
{
    void *block = malloc(size);
    __asm__ volatile("" : "+r"(block));
    return block;
}

__attribute__((visibility("default"))) void plugin_fault(void)
{
    static char data[64];
    void *ptr = data;
    __asm__ volatile("" : "+r"(ptr));
    free(ptr);
    __asm__ volatile("");
}
