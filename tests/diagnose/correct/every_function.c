/*
 * Every function of the malloc family, under libc's names and under homefree's, keeps its promises:
 * sizes, alignments, contents, errors. A diagnosed block is a few bytes longer than what the
 * program asked for, and must not show it.
 */
#include "../../support/require.h"

#include <homefree/homefree.h>

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct family {
    void *(*malloc)(size_t size);
    void *(*calloc)(size_t count, size_t size);
    void *(*realloc)(void *ptr, size_t size);
    void *(*reallocarray)(void *ptr, size_t count, size_t size);
    void *(*aligned_alloc)(size_t alignment, size_t size);
    void *(*memalign)(size_t alignment, size_t size);
    int (*posix_memalign)(void **out, size_t alignment, size_t size);
    void (*free)(void *ptr);
};

static size_t usable_size(const void *ptr)
{
    return hf_usable_size(ptr);
}

/* A block can be written in full. */
static void *filled(void *ptr, size_t size)
{
    REQUIRE(ptr != NULL && usable_size(ptr) >= size);
    return memset(ptr, 0x5a, usable_size(ptr));
}

static void check_sizes(const struct family *it)
{
    for (size_t size = 0; size < 3 << 20; size = size * 5 / 4 + 1) {
        it->free(filled(it->malloc(size), size));
        char *zeroed = it->calloc(size, 1);
        for (size_t i = 0; i < size; i += 1 + size / 64)
            REQUIRE(zeroed[i] == 0);
        it->free(filled(zeroed, size));
    }
    it->free(NULL);
}

static void check_resizing(const struct family *it)
{
    char *block = it->realloc(NULL, 10);
    memcpy(block, "contents", 9);
    for (size_t size = 9; size < 1 << 20; size = size * 3 / 2) {
        block = it->realloc(block, size);
        REQUIRE(block != NULL && strcmp(block, "contents") == 0);
    }
    block = it->reallocarray(block, 5, 4);
    REQUIRE(block != NULL && strcmp(block, "contents") == 0);
    errno = 0;
    REQUIRE(it->reallocarray(block, SIZE_MAX / 2, 4) == NULL && errno == ENOMEM);
    errno = 0;
    REQUIRE(it->realloc(block, SIZE_MAX - 4096) == NULL && errno == ENOMEM);
    REQUIRE(strcmp(block, "contents") == 0);
    it->free(it->reallocarray(NULL, 3, 3));
    REQUIRE(it->realloc(block, 0) == NULL);
}

static void check_alignments(const struct family *it)
{
    for (size_t alignment = sizeof(void *); alignment <= 1 << 20; alignment *= 4) {
        void *block = it->aligned_alloc(alignment, 3 * alignment);
        REQUIRE((uintptr_t)filled(block, 3 * alignment) % alignment == 0);
        it->free(block);
        block = it->memalign(alignment, 33);
        REQUIRE((uintptr_t)filled(block, 33) % alignment == 0);
        it->free(block);
        REQUIRE(it->posix_memalign(&block, alignment, 100) == 0);
        REQUIRE((uintptr_t)filled(block, 100) % alignment == 0);
        block = it->realloc(block, 5000);
        it->free(filled(block, 5000));
    }
    it->free(filled(it->memalign(24, 100), 100));
    it->free(filled(it->memalign(1, 100), 100));
}

static void check_errors(const struct family *it)
{
    void *block = NULL;
    errno = 0;
    REQUIRE(it->malloc(SIZE_MAX) == NULL && errno == ENOMEM);
    errno = 0;
    REQUIRE(it->malloc(SIZE_MAX / 2 - 1) == NULL && errno == ENOMEM);
    errno = 0;
    REQUIRE(it->calloc(SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
    errno = 0;
    REQUIRE(it->memalign(64, SIZE_MAX - 10) == NULL && errno == ENOMEM);
    errno = 0;
    REQUIRE(it->memalign(SIZE_MAX, 10) == NULL && errno == EINVAL);
    REQUIRE(it->posix_memalign(&block, 3, 10) == EINVAL && block == NULL);
    REQUIRE(it->posix_memalign(&block, 64, SIZE_MAX - 10) == ENOMEM && block == NULL);
}

static void check(const struct family *it)
{
    check_sizes(it);
    check_resizing(it);
    check_alignments(it);
    check_errors(it);
}

/* Functions that not every libc has. */
static void check_sized(void)
{
    void (*sized)(void *, size_t) = NULL;
    void (*aligned)(void *, size_t, size_t) = NULL;
    void (*old)(void *) = NULL;
    *(void **)&sized = dlsym(RTLD_DEFAULT, "free_sized");
    *(void **)&aligned = dlsym(RTLD_DEFAULT, "free_aligned_sized");
    *(void **)&old = dlsym(RTLD_DEFAULT, "cfree");
    if (old != NULL)
        old(malloc(40));
    if (sized != NULL)
        sized(malloc(40), 40);
    if (aligned != NULL)
        aligned(aligned_alloc(64, 128), 64, 128);
    hf_free_sized(hf_malloc(40), 40);
    hf_free_aligned(hf_aligned_alloc(64, 128), 64);
    hf_free_aligned_sized(hf_aligned_alloc(64, 128), 64, 128);
    free(hf_strdup("text"));
    free(hf_strndup("text", 2));
    hf_free(strdup("text"));
    free(valloc(100));
    free(pvalloc(100));
    errno = 0;
    REQUIRE(pvalloc(SIZE_MAX) == NULL && errno == ENOMEM);
    REQUIRE(malloc_usable_size(NULL) == 0 && hf_usable_size(NULL) == 0);
}

int main(void)
{
    const struct family libcs = {malloc,        calloc,   realloc,        reallocarray,
                                 aligned_alloc, memalign, posix_memalign, free};
    const struct family ours = {hf_malloc,        hf_calloc,   hf_realloc,        hf_reallocarray,
                                hf_aligned_alloc, hf_memalign, hf_posix_memalign, hf_free};
    check(&libcs);
    check(&ours);
    check_sized();
    puts("all right");
    return 0;
}
