/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/heap.h>, as alloc/manual/pages.py takes them. */
#include <homefree/homefree.h>

#include <assert.h>

/* The blocks of a request, which all end with it. */
static int count(void *context, void *block, size_t size)
{
    (void)block;
    (void)size;
    ++*(unsigned *)context;
    return 0;
}

static int request(void)
{
    struct hf_heap *heap = NULL;
    int error = hf_heap_new(&heap);
    if (error != 0)
        return error;
    char *name = hf_heap_malloc(heap, 100);
    int *counts = hf_heap_zalloc(heap, 10 * sizeof *counts);
    void *line = hf_heap_memalign(heap, 64, 64);
    assert(name != NULL && counts != NULL && counts[9] == 0 && line != NULL);
    hf_free(name); /* one can be freed earlier */

    unsigned blocks = 0;
    error = hf_heap_walk(heap, count, &blocks);
    assert(error == 0 && blocks == 2);
    return hf_heap_drop(heap);
}

int main(void)
{
    return request() == 0 ? 0 : 1;
}
