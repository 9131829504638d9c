/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/alloc.h - the malloc family.
 *
 * homefree gives a process one heap. All of its pages lie in one reserved address range, the
 * region. A function here that takes a pointer takes any pointer: the heap frees and resizes what
 * it owns, and every foreign pointer goes to the allocator that owns it.
 */
#ifndef HOMEFREE_ALLOC_H
#define HOMEFREE_ALLOC_H

#include <homefree/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Allocates memory from the heap, as malloc(3) and calloc(3) do.
 *
 * hf_malloc() leaves the block uninitialised; hf_calloc() clears it, and fails if count * size
 * overflows.
 *
 * Parameters:
 *   count  in, elements
 *   size   in, bytes: of the block, or of one element. 0 yields a unique pointer that can be freed.
 * Result: the block, aligned for any type that fits into it (to 8 bytes if size is at most 8,
 *   otherwise to 16); NULL on error, with errno set.
 * Errors:
 *   ENOMEM  the region is full, or the system refuses memory; nothing is lost
 * Frees: the caller frees the block with hf_free() or any routed free().
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API HF_MALLOC void *hf_malloc(size_t size);
HF_API HF_MALLOC void *hf_calloc(size_t count, size_t size);

/*
 * Resizes a block, whoever allocated it, as realloc(3) and reallocarray(3) do.
 *
 * A block of the heap stays in the heap. A foreign block is resized by its own allocator and stays
 * there. A NULL ptr allocates from the heap. A size of 0 frees ptr and returns NULL, as in glibc.
 *
 * Parameters:
 *   ptr    in: the start of a block of any allocator, or NULL
 *   count  in, elements
 *   size   in, bytes: of the resized block, or of one element
 * Result: the resized block, which may have moved; NULL on error, with errno set, or when the size
 *   is 0.
 * Errors:
 *   ENOMEM  there is no memory, or count * size overflows; ptr is unchanged and still allocated
 * Frees: a successful call replaces ptr; the caller frees the result with hf_free() or any routed
 *   free().
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API void *hf_realloc(void *ptr, size_t size);
HF_API void *hf_reallocarray(void *ptr, size_t count, size_t size);

/*
 * Allocates aligned memory from the heap.
 *
 * hf_aligned_alloc() and hf_memalign() round an alignment that is not a power of two up to the next
 * one, as glibc does. hf_posix_memalign() refuses it, and does not change errno.
 *
 * Parameters:
 *   alignment  in, bytes: a power of two; for hf_posix_memalign() also a multiple of sizeof(void *)
 *   size       in, bytes: 0 yields a unique pointer that can be freed
 *   out        out: the block; unchanged on error
 * Result: the block, or NULL on error with errno set; hf_posix_memalign() returns 0 or a positive
 *   errno.
 * Errors:
 *   EINVAL  the alignment is invalid, or too large to be rounded up
 *   ENOMEM  the region is full, or the system refuses memory
 * Frees: the caller frees the block with hf_free() or any routed free().
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API HF_MALLOC void *hf_aligned_alloc(size_t alignment, size_t size);
HF_API HF_MALLOC void *hf_memalign(size_t alignment, size_t size);
HF_API int hf_posix_memalign(void **out, size_t alignment, size_t size);

/*
 * Frees a block, whoever allocated it.
 *
 * A foreign block goes to the allocator that owns it, if that allocator is known and can be called.
 * Otherwise it goes to the free() that libhomefree itself sees: that of a preloaded allocator, or
 * libc's. errno is preserved. Freeing static data or a stack, which no allocator handed out, ends
 * the process with a message; with HOMEFREE_CONF=static_free:ignore it only warns.
 *
 * The sized forms take the arguments of C23's functions. A size that a block of the heap cannot
 * have been requested with ends the process: by default one of another size class, with
 * HOMEFREE_CONF=checks:hardened or checks:full every other one, and so does an alignment that does
 * not fit the address.
 *
 * Parameters:
 *   ptr        in: the start of a block of any allocator; NULL does nothing
 *   alignment  in, bytes: the alignment that was requested
 *   size       in, bytes: the size that was requested. Neither is trusted: they are compared with
 *              the block, and change nothing
 * Result: none.
 * Errors: none; corruption ends the process.
 * Frees: ptr is no longer valid.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API void hf_free(void *ptr);
HF_API void hf_free_sized(void *ptr, size_t size);
HF_API void hf_free_aligned(void *ptr, size_t alignment);
HF_API void hf_free_aligned_sized(void *ptr, size_t alignment, size_t size);

/* The forms of C++'s operator delete, which an allocator may tell apart. */
enum hf_delete_form {
    HF_DELETE_ONE,          /* delete of what new allocated */
    HF_DELETE_ARRAY,        /* delete[] of what new[] allocated */
    HF_DELETE_ALIGNED,      /* delete with an alignment */
    HF_DELETE_ARRAY_ALIGNED /* delete[] with an alignment */
};
#define HF_DELETE_FORMS 4

/*
 * Frees a foreign block by its allocator's own operator delete.
 *
 * For code that defines operator delete, such as the shim. Few allocators tell blocks of the
 * operators from blocks of malloc (gperftools' debug allocator does); for all others the function
 * does nothing, and the caller goes on to the operator that it replaces, or to hf_free().
 *
 * Parameters:
 *   ptr        in: the block
 *   form       in: the operator's form; a size does not matter
 *   alignment  in, bytes: the alignment of the aligned forms, otherwise 0
 * Result: whether the block was freed. False for NULL and for blocks of the heap.
 * Errors: none.
 * Frees: ptr, if the result is true.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API bool hf_delete_foreign(void *ptr, enum hf_delete_form form, size_t alignment);

/*
 * Returns dlsym(3) as a routed object calls it: a function that returns routed functions, if
 * routing is on.
 *
 * For code that defines operator delete, such as the shim, and looks up the operators that it
 * replaces. A module that refers to dlsym by name needs glibc 2.34 if it was linked with that or a
 * later one. dlsym(RTLD_DEFAULT) searches in the scope of its caller, so call it through the
 * returned address, from the object whose scope counts.
 *
 * Result: the function, never NULL.
 * Errors: none.
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: safe.
 * Since: 1.0
 */
typedef void *(*hf_dlsym_function)(void *handle, const char *name);
HF_API hf_dlsym_function hf_dlsym(void);

/*
 * Returns the usable size of a block, whoever allocated it.
 *
 * Parameters:
 *   ptr  in: the start of a block of any allocator, or NULL
 * Result: the number of bytes that may be used, at least the number requested; 0 for NULL.
 * Errors: none; corruption ends the process.
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API size_t hf_usable_size(const void *ptr);

#ifdef __cplusplus
}
#endif
#endif
