/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/alloc.h>, as alloc/manual/pages.py takes them. */
#include <homefree/homefree.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A table of zeros that grows. */
static void table(void)
{
    size_t count = 100;
    int *numbers = hf_calloc(count, sizeof *numbers);
    if (numbers == NULL)
        abort();
    int *more = hf_reallocarray(numbers, 2 * count, sizeof *numbers);
    if (more == NULL)
        abort(); /* numbers is still there, and still to be freed */
    assert(more[99] == 0);
    hf_free(more);
}

/* A block of either allocator, freed by the other one's function. */
static void crossing(void)
{
    char *ours = hf_malloc(100);
    char *libcs = strdup("from libc");
    assert(hf_owns(ours) && !hf_owns(libcs));
    free(ours);
    hf_free(libcs);
}

/* libc's block grows, and stays in libc's heap. */
static void growth(void)
{
    char *text = strdup("from libc");
    text = hf_realloc(text, 100);
    assert(text != NULL && !hf_owns(text) && strcmp(text, "from libc") == 0);
    hf_free(text);
}

/* A buffer that begins on a page, and blocks that begin on a cache line. */
static void alignment(void)
{
    void *page = NULL;
    int error = hf_posix_memalign(&page, 4096, 10000);
    assert(error == 0 && (uintptr_t)page % 4096 == 0);
    hf_free_aligned(page, 4096);

    void *line = hf_aligned_alloc(64, 100);
    assert((uintptr_t)line % 64 == 0);
    hf_free_aligned_sized(line, 64, 100);

    void *same = hf_memalign(64, 100);
    hf_free(same);
}

/* Who knows the size passes it on: a size that cannot be the block's ends the process. */
static void sized(void)
{
    void *block = hf_malloc(100);
    assert(hf_usable_size(block) >= 100);
    hf_free_sized(block, 100);
}

/* An operator delete: an allocator that tells its forms apart, and hf_free() for the rest. */
static void delete_array(void *ptr)
{
    if (!hf_delete_foreign(ptr, HF_DELETE_ARRAY, 0))
        hf_free(ptr);
}

/* The free() that a name leads to in a routed object. */
static void looked_up(void)
{
    void (*release)(void *) = (void (*)(void *))hf_dlsym()(NULL, "free");
    release(hf_malloc(10));
}

int main(void)
{
    table();
    crossing();
    growth();
    alignment();
    sized();
    delete_array(hf_malloc(10));
    looked_up();
    return 0;
}
