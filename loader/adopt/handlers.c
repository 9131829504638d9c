/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See handlers.h. Owns nothing.
 *
 * Compiled with -fexceptions: the runtime's operator new throws through these functions.
 */
#include "loader/adopt/handlers.h"

#include "alloc/base/alignment.h"
#include "alloc/base/apart.h"
#include "alloc/heap/internal.h"
#include "loader/adopt/no_memory.h"
#include "shim/calls.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* ---- C++ ------------------------------------------------------------------------------------ */

/* There is no memory. */
#define NO_MEMORY(size, alignment) hf_no_memory(size, alignment, __builtin_return_address(0))

void *hf_adopted_new(size_t size)
{
    void *block = hf_malloc(size);
    return HF_LIKELY(block != NULL) ? block : NO_MEMORY(size, 0);
}

void *hf_adopted_new_aligned(size_t size, size_t alignment)
{
    void *block = hf_memalign(alignment, size);
    return HF_LIKELY(block != NULL) ? block : NO_MEMORY(size, alignment);
}

/* SIZE_MAX where the product does not fit: no allocator has that much. */
static size_t product(size_t count, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes;
}

void *hf_adopted_new_n(size_t count, size_t size)
{
    return hf_adopted_new(product(count, size));
}

void *hf_adopted_new_realloc(void *ptr, size_t size)
{
    void *block = hf_adopted_realloc(ptr, size);
    if (HF_LIKELY(block != NULL))
        return block;
    block = NO_MEMORY(size, 0);
    if (ptr != NULL) {
        const size_t before = hf_usable_size(ptr);
        memcpy(block, ptr, before < size ? before : size);
        hf_free(ptr);
    }
    return block;
}

void *hf_adopted_new_reallocn(void *ptr, size_t count, size_t size)
{
    return hf_adopted_new_realloc(ptr, product(count, size));
}

/* ---- plain, zeroed, aligned ----------------------------------------------------------------- */

/* Clears what a block can be used for beyond a size. */
static void *clear_rest(void *block, size_t before)
{
    const size_t now = block != NULL ? hf_usable_size(block) : 0;
    if (now > before)
        memset((char *)block + before, 0, now - before);
    return block;
}

/* All that can be used of a block is zero, because what resizes it later, and clears what it adds,
 * begins there. The heap does so with larger blocks. */
void *hf_adopted_zalloc(size_t size)
{
    void *block = hf_calloc(1, size);
    return size <= HF_FAST_MAX ? clear_rest(block, size) : block;
}

void *hf_adopted_calloc(size_t count, size_t size)
{
    return hf_adopted_zalloc(product(count, size));
}

void *hf_adopted_mallocn(size_t count, size_t size)
{
    return hf_reallocarray(NULL, count, size);
}

void *hf_adopted_valloc(size_t size)
{
    return hf_memalign(page_size(), size);
}

void *hf_adopted_pvalloc(size_t size)
{
    return allocate_pages(size);
}

void *hf_adopted_malloc_aligned(size_t size, size_t alignment)
{
    return hf_memalign(alignment, size);
}

/* Whether all blocks of a size have an alignment, or it is 0. Small ones have that of their size.
 */
static bool is_aligned_anyway(size_t alignment, size_t size)
{
    return alignment <= (size > sizeof(void *) ? _Alignof(max_align_t) : sizeof(void *));
}

void *hf_adopted_zalloc_aligned(size_t size, size_t alignment)
{
    if (is_aligned_anyway(alignment, size))
        return hf_adopted_zalloc(size);
    void *block = hf_memalign(alignment, size);
    return block != NULL ? memset(block, 0, hf_usable_size(block)) : NULL;
}

void *hf_adopted_calloc_aligned(size_t count, size_t size, size_t alignment)
{
    return hf_adopted_zalloc_aligned(product(count, size), alignment);
}

void *hf_adopted_realloc_aligned(void *ptr, size_t size, size_t alignment)
{
    if (is_aligned_anyway(alignment, size))
        return hf_adopted_realloc(ptr, size);
    if (ptr == NULL)
        return hf_memalign(alignment, size);
    const size_t before = hf_usable_size(ptr);
    if (size != 0 && size <= before && size >= before / 2 &&
        ((uintptr_t)ptr & (alignment - 1)) == 0)
        return ptr;
    void *block = hf_memalign(alignment, size);
    if (block != NULL) {
        memcpy(block, ptr, before < size ? before : size);
        hf_free(ptr);
    }
    return block;
}

/* rpmalloc's order of arguments. */
void *hf_adopted_aligned_zalloc(size_t alignment, size_t size)
{
    return hf_adopted_zalloc_aligned(size, alignment);
}

void *hf_adopted_aligned_calloc(size_t alignment, size_t count, size_t size)
{
    return hf_adopted_calloc_aligned(count, size, alignment);
}

/* rpmalloc's flags allow it not to copy the contents, and to leave the block as it is where it
 * cannot grow in place (RPMALLOC_GROW_OR_FAIL). */
void *hf_adopted_aligned_realloc(void *ptr, size_t alignment, size_t size, size_t old_size,
                                 unsigned flags)
{
    enum { GROW_OR_FAIL = 2 };
    (void)old_size;
    if ((flags & GROW_OR_FAIL) != 0 && size > hf_usable_size(ptr))
        return NULL;
    return hf_adopted_realloc_aligned(ptr, size, alignment);
}

/* ---- resizing ------------------------------------------------------------------------------- */

void *hf_adopted_realloc(void *ptr, size_t size)
{
    return hf_realloc(ptr, size != 0 ? size : 1);
}

void *hf_adopted_reallocarray(void *ptr, size_t count, size_t size)
{
    return hf_adopted_realloc(ptr, product(count, size));
}

void *hf_adopted_reallocf(void *ptr, size_t size)
{
    void *block = hf_adopted_realloc(ptr, size);
    if (block == NULL)
        hf_free(ptr);
    return block;
}

int hf_adopted_reallocarr(void *slot, size_t count, size_t size)
{
    void *ptr;
    if (slot == NULL)
        return EINVAL;
    memcpy(&ptr, slot, sizeof ptr);
    const int saved_errno = errno;
    void *block = hf_adopted_reallocarray(ptr, count, size);
    if (block == NULL) {
        const int error = errno;
        errno = saved_errno;
        return error;
    }
    memcpy(slot, &block, sizeof block);
    return 0;
}

static size_t size_before(const void *ptr)
{
    return ptr != NULL ? hf_usable_size(ptr) : 0;
}

void *hf_adopted_rezalloc(void *ptr, size_t size)
{
    const size_t before = size_before(ptr);
    return clear_rest(hf_adopted_realloc(ptr, size), before);
}

void *hf_adopted_recalloc(void *ptr, size_t count, size_t size)
{
    return hf_adopted_rezalloc(ptr, product(count, size));
}

void *hf_adopted_rezalloc_aligned(void *ptr, size_t size, size_t alignment)
{
    const size_t before = size_before(ptr);
    return clear_rest(hf_adopted_realloc_aligned(ptr, size, alignment), before);
}

void *hf_adopted_recalloc_aligned(void *ptr, size_t count, size_t size, size_t alignment)
{
    return hf_adopted_rezalloc_aligned(ptr, product(count, size), alignment);
}

void *hf_adopted_expand(void *ptr, size_t size)
{
    return ptr != NULL && size <= hf_usable_size(ptr) ? ptr : NULL;
}

char *hf_adopted_strdup(const char *text)
{
    return text != NULL ? hf_strdup(text) : NULL;
}

char *hf_adopted_strndup(const char *text, size_t size)
{
    return text != NULL ? hf_strndup(text, size) : NULL;
}

wchar_t *hf_adopted_wcsdup(const wchar_t *text)
{
    return text != NULL ? hf_wcsdup(text) : NULL;
}

size_t hf_adopted_good_size(size_t size)
{
    return size;
}

bool hf_adopted_owns(const void *ptr)
{
    return hf_owns(ptr);
}

long hf_adopted_nothing(void)
{
    return 0;
}

long hf_adopted_one(void)
{
    return 1;
}

/* ---- with a heap ---------------------------------------------------------------------------- */

void *hf_adopted_heap_default(void)
{
    static HF_APART char heap[4096]; /* its address stands for the heap; nothing is read from it */
    return heap;
}

/* A function that does without the heap. */
#define HEAP_FUNCTION(result, name, parameters, call) \
    result hf_adopted_heap_##name parameters          \
    {                                                 \
        (void)heap;                                   \
        return call;                                  \
    }

HEAP_FUNCTION(void *, malloc, (void *heap, size_t size), hf_malloc(size))
HEAP_FUNCTION(void *, zalloc, (void *heap, size_t size), hf_adopted_zalloc(size))
HEAP_FUNCTION(void *, calloc, (void *heap, size_t count, size_t size),
              hf_adopted_calloc(count, size))
HEAP_FUNCTION(void *, mallocn, (void *heap, size_t count, size_t size),
              hf_reallocarray(NULL, count, size))
HEAP_FUNCTION(void *, realloc, (void *heap, void *ptr, size_t size), hf_adopted_realloc(ptr, size))
HEAP_FUNCTION(void *, reallocn, (void *heap, void *ptr, size_t count, size_t size),
              hf_adopted_reallocarray(ptr, count, size))
HEAP_FUNCTION(void *, malloc_aligned, (void *heap, size_t size, size_t alignment),
              hf_memalign(alignment, size))
HEAP_FUNCTION(void *, zalloc_aligned, (void *heap, size_t size, size_t alignment),
              hf_adopted_zalloc_aligned(size, alignment))
HEAP_FUNCTION(void *, realloc_aligned, (void *heap, void *ptr, size_t size, size_t alignment),
              hf_adopted_realloc_aligned(ptr, size, alignment))
HEAP_FUNCTION(char *, strdup, (void *heap, const char *text), hf_adopted_strdup(text))
HEAP_FUNCTION(char *, strndup, (void *heap, const char *text, size_t size),
              hf_adopted_strndup(text, size))
HEAP_FUNCTION(void *, new, (void *heap, size_t size), hf_adopted_new(size))

/* ---- jemalloc's flags ----------------------------------------------------------------------- */

/* jemalloc/jemalloc_macros.h: MALLOCX_LG_ALIGN is in the lowest six bits, MALLOCX_ZERO the next. */
static size_t alignment_of(int flags)
{
    const unsigned bits = (unsigned)flags & 0x3f;
    return bits == 0 ? 0 : (size_t)1 << bits;
}

static bool wants_zeros(int flags)
{
    return (flags & 0x40) != 0;
}

void *hf_adopted_mallocx(size_t size, int flags)
{
    const size_t alignment = alignment_of(flags);
    if (wants_zeros(flags))
        return hf_adopted_zalloc_aligned(size, alignment);
    return is_aligned_anyway(alignment, size) ? hf_malloc(size) : hf_memalign(alignment, size);
}

void *hf_adopted_rallocx(void *ptr, size_t size, int flags)
{
    const size_t before = size_before(ptr);
    void *block = hf_adopted_realloc_aligned(ptr, size, alignment_of(flags));
    return wants_zeros(flags) ? clear_rest(block, before) : block;
}

size_t hf_adopted_xallocx(void *ptr, size_t size, size_t extra, int flags)
{
    (void)size;
    (void)extra;
    (void)flags;
    return hf_usable_size(ptr);
}

size_t hf_adopted_nallocx(size_t size, int flags)
{
    (void)flags;
    return size <= PTRDIFF_MAX ? size : 0;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool ends(const char *text, const char *with)
{
    const size_t length = strlen(text), wanted = strlen(with);
    return length >= wanted && strcmp(text + length - wanted, with) == 0;
}

/* Whether a name is one by which programs tune jemalloc or make it give memory back. */
static bool is_tuning(const char *name)
{
    return strcmp(name, "epoch") == 0 || strcmp(name, "background_thread") == 0 ||
           strcmp(name, "max_background_threads") == 0 || begins(name, "thread.tcache.") ||
           strcmp(name, "thread.idle") == 0 || ends(name, "_decay_ms") ||
           (begins(name, "arena") && (ends(name, ".purge") || ends(name, ".decay")));
}

int hf_adopted_mallctl(const char *name, void *old, size_t *old_size, void *value,
                       size_t value_size)
{
    (void)value;
    (void)value_size;
    if (name == NULL)
        return EINVAL;
    if (!is_tuning(name))
        return ENOENT;
    if (old != NULL && old_size != NULL)
        memset(old, 0, *old_size);
    return 0;
}

/* The one name that translates is that of "everything that tunes". */
int hf_adopted_mallctlnametomib(const char *name, size_t *mib, size_t *length)
{
    if (name == NULL || mib == NULL || length == NULL)
        return EINVAL;
    if (!is_tuning(name))
        return ENOENT;
    memset(mib, 0, *length * sizeof *mib);
    return 0;
}

int hf_adopted_mallctlbymib(const size_t *mib, size_t length, void *old, size_t *old_size,
                            void *value, size_t value_size)
{
    if (mib == NULL || length == 0)
        return EINVAL;
    return hf_adopted_mallctl("epoch", old, old_size, value, value_size);
}

/* ---- tcmalloc's statistics ------------------------------------------------------------------ */

struct mallinfo hf_adopted_mallinfo(void)
{
    return (struct mallinfo){0};
}

struct hf_adopted_mallinfo2 hf_adopted_mallinfo2(void)
{
    return (struct hf_adopted_mallinfo2){0};
}

/* ---- tcmalloc's mapping --------------------------------------------------------------------- */

void *hf_adopted_mmap(void *address, size_t size, int protection, int flags, int descriptor,
                      off_t offset)
{
    return mmap(address, size, protection, flags, descriptor, offset);
}

int hf_adopted_munmap(void *address, size_t size)
{
    return munmap(address, size);
}

void *hf_adopted_mremap(void *address, size_t size, size_t new_size, int flags, void *new_address)
{
    return mremap(address, size, new_size, flags, new_address);
}

void *hf_adopted_sbrk(intptr_t increment)
{
    return sbrk(increment);
}
