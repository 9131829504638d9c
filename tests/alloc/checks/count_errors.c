/* What the process's allocator catches of the heap errors that programs make (errors.c, kinds.c):
 * libc's, or one that is preloaded; the heap's own functions where that is libhomefree. Linked with
 * none of them. Takes the list: errors or kinds. Prints one line: name value, name value, ... See
 * heap_errors.py in tests/bench. */
#include "counts.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void free_unsized(void *ptr, size_t size)
{
    (void)size;
    free(ptr);
}

static void free_unsized_aligned(void *ptr, size_t alignment, size_t size)
{
    (void)alignment;
    (void)size;
    free(ptr);
}

/* C++'s sized operators and C23's functions take these arguments in different orders. */
static void (*delete_sized_aligned)(void *ptr, size_t size, size_t alignment);

static void free_deleted(void *ptr, size_t alignment, size_t size)
{
    delete_sized_aligned(ptr, size, alignment);
}

/* Leaves the pointer unchanged if no object defines the name. */
static bool find(const char *name, void *function)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    if (found != NULL)
        memcpy(function, &found, sizeof found);
    return found != NULL;
}

int main(int argc, char **argv)
{
    struct family family = {malloc,
                            calloc,
                            realloc,
                            memalign,
                            free,
                            free_unsized,
                            free_unsized_aligned,
                            malloc_usable_size};
    /* The allocator's own sized free; without libstdc++ nothing else defines these names. */
    (void)find("_ZdlPvm", &family.free_sized);
    if (find("_ZdlPvmSt11align_val_t", &delete_sized_aligned))
        family.free_aligned_sized = free_deleted;
    if (find("hf_malloc", &family.malloc)) {
        (void)find("hf_calloc", &family.calloc);
        (void)find("hf_realloc", &family.realloc);
        (void)find("hf_memalign", &family.memalign);
        (void)find("hf_free", &family.free);
        (void)find("hf_free_sized", &family.free_sized);
        (void)find("hf_free_aligned_sized", &family.free_aligned_sized);
        (void)find("hf_usable_size", &family.usable_size);
    }
    const struct counts counts = argc == 2 && strcmp(argv[1], "kinds") == 0
                                     ? count_kinds(&family, TIERS)
                                     : count_errors(&family, false);
    printf("all %zu, caught %zu, crashed %zu, prevented %zu, hung %zu, missed %zu\n", counts.all,
           counts.caught, counts.crashed, counts.prevented, counts.hung, counts.missed);
    return 0;
}
