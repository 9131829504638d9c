/*
 * Frees memory of spaces, and memory that others got from CUDA, by functions of libc's.
 *
 * Usage: spaces space | others
 */
#include "api.h"

#include <homefree/homefree.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *block_of(enum hf_space_kind kind, size_t size)
{
    void *at = NULL;
    if (hf_space_alloc(&at, kind, 0, size, 0, NULL) != 0)
        exit(2);
    return at;
}

static void free_spaces(void)
{
    for (size_t size = 100; size < 10000000; size *= 100) {
        free(block_of(HF_SPACE_PINNED, size));
        free(block_of(HF_SPACE_DEVICE, size));
        hf_free(block_of(HF_SPACE_PINNED, size));
        hf_free(block_of(HF_SPACE_DEVICE, size));
        free(realloc(block_of(HF_SPACE_PINNED, size), 2 * size));
        (void)cudaFreeHost(block_of(HF_SPACE_PINNED, size));
    }
}

static __attribute__((noinline)) void free_others(void)
{
    void *at = NULL;
    if (cudaHostAlloc(&at, 100000, 0) != 0)
        exit(2);
    free(at);
    if (cudaMalloc(&at, 200000) != 0)
        exit(2);
    free(at);
    if (cudaMalloc(&at, 300000) != 0 || cudaFree(at) != 0)
        exit(2);
}

int main(int count, char **arguments)
{
    if (count != 2)
        return 2;
    if (strcmp(arguments[1], "space") == 0)
        free_spaces();
    else
        free_others();
    struct hf_space_stats stats = {.size = sizeof stats};
    /* Small blocks are in the thread's cache. */
    if (hf_space_stats(HF_SPACE_DEVICE, 0, HF_STREAM_ANY, &stats) != 0 || stats.allocated > 900000)
        return 3;
    return 0;
}
