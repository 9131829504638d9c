/*
 * A module that is linked with the shim: its names of libc's are calls of homefree.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *shimmed_line(FILE *stream);
void *shimmed_take(size_t size);
void shimmed_give(void *ptr);

/* A line whose block getline() makes and then enlarges. */
__attribute__((visibility("default"))) char *shimmed_line(FILE *stream)
{
    char *line = malloc(1);
    size_t size = 1;
    return getline(&line, &size, stream) >= 0 ? line : NULL;
}

__attribute__((visibility("default"))) void *shimmed_take(size_t size)
{
    void *block = malloc(size);
    __asm__ volatile("" : "+r"(block));
    return block;
}

__attribute__((visibility("default"))) void shimmed_give(void *ptr)
{
    free(ptr);
    __asm__ volatile("");
}
