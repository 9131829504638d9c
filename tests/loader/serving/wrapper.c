/*
 * A malloc wrapper as people preload them: a header before each block, and the next allocator
 * behind it. A block that did not come through it, or that is taken behind its back, ends the
 * process. With WRAPPER_OVER_MIMALLOC it calls that one by its own names. With WRAPPER_STRINGS it
 * defines strdup and strndup as well: a wrapper before mimalloc 3, which defines both, has to.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

enum { HEADER = 64 };
static const char magic[8] = "wrapped";

static void (*next_free)(void *);
#ifndef WRAPPER_OVER_MIMALLOC
static void *(*next_malloc)(size_t);
#endif

/* Serves calls from inside dlsym(), which may allocate before it returns. */
static _Alignas(64) char early[1 << 16];

static void die(const char *text)
{
    (void)!write(STDERR_FILENO, text, strlen(text));
    abort();
}

#ifdef WRAPPER_OVER_MIMALLOC
/* The wrapper is linked with mimalloc, which comes after libc. */
void mi_free(void *ptr);
void *mi_realloc(void *ptr, size_t size);

static void *next(size_t size)
{
    next_free = mi_free;
    return mi_realloc(NULL, size);
}
#else
static void *next(size_t size)
{
    if (next_malloc == NULL) {
        static size_t early_used;
        static volatile int asking; /* dlsym() is declared not to call back, but it allocates */
        if (asking++ > 0) {
            asking--;
            early_used += (size + 63) & ~(size_t)63;
            if (early_used > sizeof early)
                die("wrapper: no early memory\n");
            return early + early_used - ((size + 63) & ~(size_t)63);
        }
        void (*found_free)(void *) = (void (*)(void *))dlsym(RTLD_NEXT, "free");
        void *(*found)(size_t) = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
        next_free = found_free;
        next_malloc = found;
        asking--;
    }
    return next_malloc(size);
}
#endif

struct header {
    char magic[8];
    size_t size;
    void *start;
};

static void *wrapped(size_t alignment, size_t size)
{
    size_t capacity = alignment > HEADER ? alignment : HEADER;
    char *start = next(size + 2 * capacity);
    if (start == NULL)
        return NULL;
    char *block = (char *)(((uintptr_t)start + 2 * capacity) & -capacity);
    struct header header = {.size = size, .start = start};
    memcpy(header.magic, magic, sizeof magic);
    memcpy(block - sizeof header, &header, sizeof header);
    return block;
}

static struct header header_of(void *ptr)
{
    struct header header;
    memcpy(&header, (char *)ptr - sizeof header, sizeof header);
    if (memcmp(header.magic, magic, sizeof magic) != 0)
        die("wrapper: a block that is not mine\n");
    return header;
}

API void *malloc(size_t size)
{
    return wrapped(HEADER, size);
}

API void *calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    void *block = wrapped(HEADER, bytes);
    return block != NULL ? memset(block, 0, bytes) : NULL;
}

API void free(void *ptr)
{
    if (ptr == NULL)
        return;
    struct header header = header_of(ptr);
    memset((char *)ptr - sizeof header, 0, sizeof header);
    if ((char *)header.start < early || (char *)header.start >= early + sizeof early)
        next_free(header.start);
}

API void *realloc(void *ptr, size_t size)
{
    if (ptr == NULL)
        return malloc(size);
    size_t old = header_of(ptr).size;
    void *block = malloc(size);
    if (block != NULL) {
        memcpy(block, ptr, old < size ? old : size);
        free(ptr);
    }
    return block;
}

API void *reallocarray(void *ptr, size_t count, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? NULL : realloc(ptr, bytes);
}

API size_t malloc_usable_size(void *ptr)
{
    return ptr != NULL ? header_of(ptr).size : 0;
}

API void *memalign(size_t alignment, size_t size)
{
    return wrapped(alignment, size);
}

API void *aligned_alloc(size_t alignment, size_t size)
{
    return wrapped(alignment, size);
}

API int posix_memalign(void **out, size_t alignment, size_t size)
{
    *out = wrapped(alignment, size);
    return *out != NULL ? 0 : ENOMEM;
}

#ifdef WRAPPER_STRINGS
#    undef strdup
#    undef strndup
API char *strndup(const char *text, size_t length)
{
    size_t size = strnlen(text, length);
    char *copy = malloc(size + 1);
    if (copy != NULL) {
        memcpy(copy, text, size);
        copy[size] = '\0';
    }
    return copy;
}

API char *strdup(const char *text)
{
    return strndup(text, strlen(text));
}
#endif

/* Replaces operator new and delete; in C, by their mangled names. */
API void *_Znwm(size_t size);
API void *_Znam(size_t size);
API void _ZdlPv(void *ptr);
API void _ZdaPv(void *ptr);
API void _ZdlPvm(void *ptr, size_t size);
API void _ZdaPvm(void *ptr, size_t size);

API void *_Znwm(size_t size)
{
    return malloc(size);
}

API void *_Znam(size_t size)
{
    return malloc(size);
}

API void _ZdlPv(void *ptr)
{
    free(ptr);
}

API void _ZdaPv(void *ptr)
{
    free(ptr);
}

API void _ZdlPvm(void *ptr, size_t size)
{
    if (ptr != NULL && header_of(ptr).size != size)
        die("wrapper: another size\n");
    free(ptr);
}

API void _ZdaPvm(void *ptr, size_t size)
{
    _ZdlPvm(ptr, size);
}
