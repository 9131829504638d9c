/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What serves the entry points of hidden allocators (entries.def) that differ from homefree's
 * functions: in the order of their arguments, in flags, or by throwing. Adopted copies refer to
 * them by name, so a name keeps its meaning for ever.
 *
 * Owns: nothing. Callable at any stage, from any thread, as hf_malloc(). Results are freed by
 * hf_free() or whatever leads to it. Since 1.0.
 */
#ifndef HOMEFREE_LOADER_ADOPT_HANDLERS_H
#define HOMEFREE_LOADER_ADOPT_HANDLERS_H

#include <homefree/homefree.h>
#include <malloc.h>
#include <sys/types.h>

/* Throw std::bad_alloc, or call the new handler, as the process's C++ runtime does. Without one
 * they end the process. */
HF_API void *hf_adopted_new(size_t size);
HF_API void *hf_adopted_new_aligned(size_t size, size_t alignment);
HF_API void *hf_adopted_new_n(size_t count, size_t size);
HF_API void *hf_adopted_new_realloc(void *ptr, size_t size);
HF_API void *hf_adopted_new_reallocn(void *ptr, size_t count, size_t size);

/* NULL, with errno, if there is no memory. */
HF_API void *hf_adopted_zalloc(size_t size);
HF_API void *hf_adopted_calloc(size_t count, size_t size);
HF_API void *hf_adopted_mallocn(size_t count, size_t size);
HF_API void *hf_adopted_valloc(size_t size);
HF_API void *hf_adopted_pvalloc(size_t size);
HF_API void *hf_adopted_malloc_aligned(size_t size, size_t alignment);
HF_API void *hf_adopted_zalloc_aligned(size_t size, size_t alignment);
HF_API void *hf_adopted_calloc_aligned(size_t count, size_t size, size_t alignment);
HF_API void *hf_adopted_realloc_aligned(void *ptr, size_t size, size_t alignment);

HF_API void *hf_adopted_aligned_zalloc(size_t alignment, size_t size);
HF_API void *hf_adopted_aligned_calloc(size_t alignment, size_t count, size_t size);
HF_API void *hf_adopted_aligned_realloc(void *ptr, size_t alignment, size_t size, size_t old_size,
                                        unsigned flags);

/* As mimalloc's: an empty block, and not NULL, for a size of 0. */
HF_API void *hf_adopted_realloc(void *ptr, size_t size);
HF_API void *hf_adopted_reallocarray(void *ptr, size_t count, size_t size);
/* Frees the block if it cannot be resized. */
HF_API void *hf_adopted_reallocf(void *ptr, size_t size);
/* Resizes the block to which `slot` points (void **), as NetBSD's reallocarr(): 0 or an errno. */
HF_API int hf_adopted_reallocarr(void *slot, size_t count, size_t size);
/* For blocks that were allocated zeroed: what is added is zero. */
HF_API void *hf_adopted_rezalloc(void *ptr, size_t size);
HF_API void *hf_adopted_recalloc(void *ptr, size_t count, size_t size);
HF_API void *hf_adopted_rezalloc_aligned(void *ptr, size_t size, size_t alignment);
HF_API void *hf_adopted_recalloc_aligned(void *ptr, size_t count, size_t size, size_t alignment);
/* The same block if it has room for `size` bytes, otherwise NULL. */
HF_API void *hf_adopted_expand(void *ptr, size_t size);
HF_API size_t hf_adopted_good_size(size_t size);
HF_API bool hf_adopted_owns(const void *ptr);
/* As mimalloc's: NULL for NULL. */
HF_API char *hf_adopted_strdup(const char *text);
HF_API char *hf_adopted_strndup(const char *text, size_t size);
HF_API wchar_t *hf_adopted_wcsdup(const wchar_t *text);
/* Return 0 and 1, whatever the arguments. */
HF_API long hf_adopted_nothing(void);
HF_API long hf_adopted_one(void);

/* mimalloc's functions whose first argument is a heap. There is one. */
HF_API void *hf_adopted_heap_default(void);
HF_API void *hf_adopted_heap_malloc(void *heap, size_t size);
HF_API void *hf_adopted_heap_zalloc(void *heap, size_t size);
HF_API void *hf_adopted_heap_calloc(void *heap, size_t count, size_t size);
HF_API void *hf_adopted_heap_mallocn(void *heap, size_t count, size_t size);
HF_API void *hf_adopted_heap_realloc(void *heap, void *ptr, size_t size);
HF_API void *hf_adopted_heap_reallocn(void *heap, void *ptr, size_t count, size_t size);
HF_API void *hf_adopted_heap_malloc_aligned(void *heap, size_t size, size_t alignment);
HF_API void *hf_adopted_heap_zalloc_aligned(void *heap, size_t size, size_t alignment);
HF_API void *hf_adopted_heap_realloc_aligned(void *heap, void *ptr, size_t size, size_t alignment);
HF_API char *hf_adopted_heap_strdup(void *heap, const char *text);
HF_API char *hf_adopted_heap_strndup(void *heap, const char *text, size_t size);
HF_API void *hf_adopted_heap_new(void *heap, size_t size);

/*
 * jemalloc's functions with flags: alignment and zeroing mean what they mean there; caches and
 * arenas are ignored, since none can be made. mallctl() answers as a jemalloc that was configured
 * without what is asked for (ENOENT), accepts what tunes or empties it, and does nothing.
 */
HF_API void *hf_adopted_mallocx(size_t size, int flags);
HF_API void *hf_adopted_rallocx(void *ptr, size_t size, int flags);
HF_API size_t hf_adopted_xallocx(void *ptr, size_t size, size_t extra, int flags);
HF_API size_t hf_adopted_nallocx(size_t size, int flags);
HF_API int hf_adopted_mallctl(const char *name, void *old, size_t *old_size, void *value,
                              size_t value_size);
HF_API int hf_adopted_mallctlnametomib(const char *name, size_t *mib, size_t *length);
HF_API int hf_adopted_mallctlbymib(const size_t *mib, size_t length, void *old, size_t *old_size,
                                   void *value, size_t value_size);

/* tcmalloc's statistics are empty. mallinfo2() of glibc 2.33 has a structure that older headers
 * lack: ten numbers. */
struct hf_adopted_mallinfo2 {
    size_t numbers[10];
};
HF_API struct mallinfo hf_adopted_mallinfo(void);
HF_API struct hf_adopted_mallinfo2 hf_adopted_mallinfo2(void);

/* MallocExtension::instance(): an object that answers for the heap. */
HF_API const void *hf_adopted_malloc_extension(void);
/* Functions of MallocExtension's interface in C. */
HF_API int hf_adopted_count_blocks(int *blocks, size_t *total, int *histogram);
HF_API void hf_adopted_describe(char *buffer, int size);
HF_API int hf_adopted_ownership(const void *ptr);

/* libc's functions of the same name, of which tcmalloc before 2.16 has its own. The last argument
 * of mremap() matters with MREMAP_FIXED alone. */
HF_API void *hf_adopted_mmap(void *address, size_t size, int protection, int flags, int descriptor,
                             off_t offset);
HF_API int hf_adopted_munmap(void *address, size_t size);
HF_API void *hf_adopted_mremap(void *address, size_t size, size_t new_size, int flags,
                               void *new_address);
HF_API void *hf_adopted_sbrk(intptr_t increment);

#endif
