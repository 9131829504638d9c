/* See side.h. Compiled as C and as C++. */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif
#include "side.h"

#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __cplusplus
#    include <new>
#endif

#define ALIGNMENT 64

/* ---- the malloc family, and functions of libc that call it ---- */

static void *by_malloc(size_t size)
{
    return malloc(size);
}

static void *by_calloc(size_t size)
{
    return calloc(size, 1);
}

static void *by_realloc(size_t size)
{
    void *ptr = malloc(size / 2 + 1);
    return ptr != NULL ? realloc(ptr, size) : NULL;
}

static void *by_reallocarray(size_t size)
{
    return reallocarray(NULL, size, 1);
}

static void *by_aligned_alloc(size_t size)
{
    return aligned_alloc(ALIGNMENT, (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

static void *by_memalign(size_t size)
{
    return memalign(ALIGNMENT, size);
}

static void *by_posix_memalign(size_t size)
{
    void *ptr;
    return posix_memalign(&ptr, ALIGNMENT, size) == 0 ? ptr : NULL;
}

static void *by_valloc(size_t size)
{
    return valloc(size);
}

/* A string of size - 1 characters, which the functions below copy. */
static const char *long_string(size_t size)
{
    static char text[1 << 20];
    memset(text, 'x', size - 1);
    text[size - 1] = '\0';
    return text;
}

static void *by_strdup(size_t size)
{
    return strdup(long_string(size));
}

static void *by_strndup(size_t size)
{
    return strndup(long_string(size), size - 1);
}

static void *by_asprintf(size_t size)
{
    char *text;
    return asprintf(&text, "%s", long_string(size)) >= 0 ? text : NULL;
}

static void *by_open_memstream(size_t size)
{
    char *text = NULL;
    size_t length;
    FILE *stream = open_memstream(&text, &length);
    if (stream == NULL)
        return NULL;
    fputs(long_string(size), stream);
    fclose(stream);
    return text;
}

static char *read_line(char *line, size_t capacity, size_t size)
{
    char *text = (char *)long_string(size);
    FILE *stream = fmemopen(text, size, "r");
    if (stream == NULL || getline(&line, &capacity, stream) < 0) {
        free(line);
        line = NULL;
    }
    if (stream != NULL)
        fclose(stream);
    return line;
}

static void *by_getline(size_t size)
{
    return read_line(NULL, 0, size);
}

static bool by_free(void *ptr, size_t size, side_intact *intact)
{
    (void)size;
    (void)intact;
    free(ptr);
    return true;
}

static bool by_growing(void *ptr, size_t size, side_intact *intact)
{
    void *grown = realloc(ptr, size * 2 + 100);
    if (grown == NULL)
        return false;
    bool good = intact(grown, size);
    memset(grown, 1, size * 2 + 100);
    free(grown);
    return good;
}

static bool by_growing_array(void *ptr, size_t size, side_intact *intact)
{
    void *grown = reallocarray(ptr, size, 3);
    if (grown == NULL)
        return false;
    bool good = intact(grown, size);
    memset(grown, 1, size * 3);
    free(grown);
    return good;
}

static bool by_measuring(void *ptr, size_t size, side_intact *intact)
{
    (void)intact;
    size_t usable = malloc_usable_size(ptr);
    free(ptr);
    return usable >= size;
}

/* getline() reallocates a line that is too short. */
static bool by_reading(void *ptr, size_t size, side_intact *intact)
{
    (void)intact;
    char *line = read_line((char *)ptr, size, size * 2 + 2);
    bool good = line != NULL && strlen(line) == size * 2 + 1;
    free(line);
    return good;
}

/* ---- operators ---- */

#ifdef __cplusplus
template <typename... Arguments> static void *by_new(size_t size)
{
    return ::operator new(size, Arguments()...);
}

template <typename... Arguments> static void *by_new_array(size_t size)
{
    return ::operator new[](size, Arguments()...);
}

static void *by_new_aligned(size_t size)
{
    return ::operator new (size, std::align_val_t{ALIGNMENT});
}

static void *by_new_array_aligned(size_t size)
{
    return ::operator new[](size, std::align_val_t{ALIGNMENT});
}

static bool by_delete(void *ptr, size_t, side_intact *)
{
    ::operator delete(ptr);
    return true;
}

static bool by_sized_delete(void *ptr, size_t size, side_intact *)
{
    ::operator delete(ptr, size);
    return true;
}

static bool by_delete_array(void *ptr, size_t, side_intact *)
{
    ::operator delete[](ptr);
    return true;
}

static bool by_sized_delete_array(void *ptr, size_t size, side_intact *)
{
    ::operator delete[](ptr, size);
    return true;
}

static bool by_delete_aligned(void *ptr, size_t, side_intact *)
{
    ::operator delete (ptr, std::align_val_t{ALIGNMENT});
    return true;
}

static bool by_sized_delete_aligned(void *ptr, size_t size, side_intact *)
{
    ::operator delete (ptr, size, std::align_val_t{ALIGNMENT});
    return true;
}

static bool by_delete_array_aligned(void *ptr, size_t, side_intact *)
{
    ::operator delete[](ptr, std::align_val_t{ALIGNMENT});
    return true;
}

static bool by_sized_delete_array_aligned(void *ptr, size_t size, side_intact *)
{
    ::operator delete[](ptr, size, std::align_val_t{ALIGNMENT});
    return true;
}
#endif

/* ---- the tables ---- */

static const struct side_allocate allocates[] = {
    {"malloc", SIDE_MALLOC, by_malloc},
    {"calloc", SIDE_MALLOC, by_calloc},
    {"realloc", SIDE_MALLOC, by_realloc},
    {"reallocarray", SIDE_MALLOC, by_reallocarray},
    {"aligned_alloc", SIDE_MALLOC, by_aligned_alloc},
    {"memalign", SIDE_MALLOC, by_memalign},
    {"posix_memalign", SIDE_MALLOC, by_posix_memalign},
    {"valloc", SIDE_MALLOC, by_valloc},
    {"strdup", SIDE_MALLOC, by_strdup},
    {"strndup", SIDE_MALLOC, by_strndup},
    {"asprintf", SIDE_MALLOC, by_asprintf},
    {"open_memstream", SIDE_MALLOC, by_open_memstream},
    {"getline", SIDE_MALLOC, by_getline},
#ifdef __cplusplus
    {"new", SIDE_NEW, by_new<>},
    {"new-nothrow", SIDE_NEW, by_new<std::nothrow_t>},
    {"new[]", SIDE_NEW_ARRAY, by_new_array<>},
    {"new[]-nothrow", SIDE_NEW_ARRAY, by_new_array<std::nothrow_t>},
    {"new-aligned", SIDE_NEW_ALIGNED, by_new_aligned},
    {"new[]-aligned", SIDE_NEW_ARRAY_ALIGNED, by_new_array_aligned},
#endif
    {NULL, SIDE_MALLOC, NULL},
};

static const struct side_release releases[] = {
    {"free", SIDE_MALLOC, by_free},
    {"realloc", SIDE_MALLOC, by_growing},
    {"reallocarray", SIDE_MALLOC, by_growing_array},
    {"malloc_usable_size", SIDE_MALLOC, by_measuring},
    {"getline", SIDE_MALLOC, by_reading},
#ifdef __cplusplus
    {"delete", SIDE_NEW, by_delete},
    {"delete-sized", SIDE_NEW, by_sized_delete},
    {"delete[]", SIDE_NEW_ARRAY, by_delete_array},
    {"delete[]-sized", SIDE_NEW_ARRAY, by_sized_delete_array},
    {"delete-aligned", SIDE_NEW_ALIGNED, by_delete_aligned},
    {"delete-aligned-sized", SIDE_NEW_ALIGNED, by_sized_delete_aligned},
    {"delete[]-aligned", SIDE_NEW_ARRAY_ALIGNED, by_delete_array_aligned},
    {"delete[]-aligned-sized", SIDE_NEW_ARRAY_ALIGNED, by_sized_delete_array_aligned},
#endif
    {NULL, SIDE_MALLOC, NULL},
};

static void (*unloading)(void);

static void at_unload(void (*function)(void))
{
    unloading = function;
}

__attribute__((destructor)) static void unload(void)
{
    if (unloading != NULL)
        unloading();
}

const struct side *matrix_side(void)
{
    static const struct side side = {allocates, releases, at_unload};
    return &side;
}
