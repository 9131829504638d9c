/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/owner.h - which allocator an address belongs to.
 */
#ifndef HOMEFREE_OWNER_H
#define HOMEFREE_OWNER_H

#include <homefree/base.h>

#ifdef __cplusplus
/* hf_owns() is C and C++ alike. */
#    pragma GCC diagnostic push
#    pragma GCC diagnostic ignored "-Wold-style-cast"
extern "C" {
#endif

/* The region. Its size is 0 until libhomefree is loaded, and grows. Read it through hf_owns() only.
 */
struct hf_region_range {
    uintptr_t base;
    size_t size; /* bytes */
};
HF_API extern struct hf_region_range hf_region_range;

/*
 * Tells whether the heap owns an address, that is, whether the address lies in the region.
 *
 * The answer is also true inside a block, inside a freed block, and in pages that the heap has not
 * handed out yet. The test is one subtraction and one comparison, without a lock. It is inlined in
 * C and C++, and exported for other languages; HF_NO_INLINE, defined before the header is included,
 * selects the exported function.
 *
 * Parameters:
 *   ptr  in: any address; it is not accessed
 * Result: true if the address lies in the region.
 * Errors: none.
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: safe.
 * Since: 1.0
 */
#if defined(__GNUC__) && !defined(HF_NO_INLINE)
HF_API __attribute__((gnu_inline)) extern inline bool hf_owns(const void *ptr)
{
    return (uintptr_t)ptr - hf_region_range.base < hf_region_range.size;
}
#else
HF_API bool hf_owns(const void *ptr);
#endif

/* The kinds of owner. */
enum hf_owner_kind {
    HF_OWNER_UNKNOWN = 0,   /* no allocator is known to own the memory */
    HF_OWNER_HEAP = 1,      /* the heap; `block` is NULL outside live blocks */
    HF_OWNER_PYMALLOC = 2,  /* CPython's allocator for small objects; `domain` if it is known */
    HF_OWNER_LIBC = 3,      /* libc's malloc */
    HF_OWNER_ALLOCATOR = 4, /* another allocator, named by `allocator` and `object` */
    HF_OWNER_STACK = 5,     /* a thread's stack */
    HF_OWNER_STATIC = 6,    /* a loaded shared object or the program, named by `object` */
    HF_OWNER_UNMAPPED = 7,  /* no memory is mapped there */
    HF_OWNER_PINNED = 8,    /* homefree's page-locked memory (homefree/space.h) */
    HF_OWNER_DEVICE = 9,    /* homefree's memory of a device; `device` says which */
    HF_OWNER_CUDA = 10      /* memory that CUDA gave to somebody else */
};

/* The owner of an address. Caller-sized. The strings are valid for the lifetime of the process. */
struct hf_owner {
    size_t size;
    enum hf_owner_kind kind;
    const char *allocator; /* "homefree", "glibc", "mimalloc", …; NULL if unknown */
    const char *object;    /* path of the shared object that holds the allocator, for HF_OWNER_CUDA
                              of the one that asked CUDA for the memory; NULL if unknown */
    const void *block;     /* first byte of the block; NULL if unknown */
    size_t block_size;     /* usable bytes of the block; 0 if unknown */
    const char *domain;    /* CPython's "raw", "mem" or "object"; NULL if unknown */
    int device;            /* the device's index, for HF_OWNER_DEVICE and HF_OWNER_CUDA; else -1 */
    int64_t interpreter;   /* CPython's number of the interpreter that owns the block, for
                              HF_OWNER_PYMALLOC from CPython 3.12 on; -1 if unknown */
};

/*
 * Names the owner of an address. The answer is exact or HF_OWNER_UNKNOWN, never a guess.
 *
 * `block` and `block_size` describe the live block that contains the address. They are always known
 * for the heap, where a block that another thread has just freed may count as live for a while, and
 * for libc's malloc as far as its data structures tell; a block in one of libc's caches counts as
 * live. A foreign allocator is named if its mapping calls are routed or if it has a function that
 * can be asked. The stack of another thread is named if glibc allocated it. Memory that CUDA gave
 * to others is known with its block and object if their call was routed, and otherwise as far as
 * the driver knows it, once homefree has found CUDA.
 *
 * The call takes no lock of the heap. For an address outside the heap it reads /proc/self/maps,
 * which takes tens of microseconds.
 *
 * Parameters:
 *   ptr  in: any value; it is not accessed
 *   out  out: the answer
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  out is NULL, or its size is too small
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_owner_of(const void *ptr, struct hf_owner *out);

#ifdef __cplusplus
}
#    pragma GCC diagnostic pop
#endif
#endif
