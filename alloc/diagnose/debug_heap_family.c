/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The malloc family of libhomefree-diagnose.so under homefree's own names, in place of
 * spans/heap_family.c's and start/family.c's. Modules that are linked with the shim call these.
 * Their operators call them too, so the kind of block is not known, and any function may free it.
 *
 * Owns nothing, takes no lock. Callable at any stage.
 */
#include "alloc/base/alignment.h"
#include "alloc/diagnose/faults.h"
#include "alloc/diagnose/hot.h"
#include "alloc/start/family.h"

#include <errno.h>
#include <string.h>

#define OUR_CALL(function)                         \
    ((struct hf_call_site){HF_FUNCTION_##function, \
                           hf_hot_caller(true, __builtin_return_address(0))})

void *hf_malloc(size_t size)
{
    return hf_hot_allocate(size, HF_FUNCTION_hf_malloc, true);
}

void hf_free(void *ptr)
{
    hf_hot_free(ptr, HF_NOTHING_STATED, OUR_CALL(hf_free));
}

void hf_free_named(void *ptr, const char *function)
{
    hf_hot_free(ptr, HF_NOTHING_STATED,
                (struct hf_call_site){hf_fault_function(function),
                                      hf_hot_caller(true, __builtin_return_address(0))});
}

void *hf_calloc(size_t count, size_t size)
{
    return hf_debug_heap_clear(count, size, OUR_CALL(hf_allocate));
}

void *hf_realloc_for(void *ptr, size_t size, const void *caller)
{
    return hf_debug_heap_resize(
        ptr, size, (struct hf_call_site){HF_FUNCTION_hf_realloc, hf_hot_caller(true, caller)});
}

void *hf_realloc(void *ptr, size_t size)
{
    return hf_debug_heap_resize(ptr, size, OUR_CALL(hf_realloc));
}

void *hf_reallocarray(void *ptr, size_t count, size_t size)
{
    size_t bytes;
    if (!hf_array_size(count, size, &bytes))
        return NULL;
    return hf_debug_heap_resize(ptr, bytes, OUR_CALL(hf_realloc));
}

void *hf_memalign(size_t alignment, size_t size)
{
    return hf_debug_heap_aligned(alignment, size, OUR_CALL(hf_allocate));
}

void *hf_aligned_alloc(size_t alignment, size_t size)
{
    return hf_debug_heap_aligned(alignment, size, OUR_CALL(hf_allocate));
}

int hf_posix_memalign(void **out, size_t alignment, size_t size)
{
    return hf_debug_heap_posix_memalign(out, alignment, size, OUR_CALL(hf_allocate));
}

void hf_check_freed(const void *ptr, const size_t *alignment, const size_t *size,
                    const void *caller)
{
    /* The free that follows checks. */
    (void)ptr;
    (void)alignment;
    (void)size;
    (void)caller;
}

void hf_free_sized(void *ptr, size_t size)
{
    hf_hot_free(ptr, (struct hf_stated){&size, NULL}, OUR_CALL(hf_free));
}

void hf_free_aligned(void *ptr, size_t alignment)
{
    hf_debug_heap_free(ptr, (struct hf_stated){NULL, &alignment}, OUR_CALL(hf_free));
}

void hf_free_aligned_sized(void *ptr, size_t alignment, size_t size)
{
    hf_debug_heap_free(ptr, (struct hf_stated){&size, &alignment}, OUR_CALL(hf_free));
}

size_t hf_usable_size(const void *ptr)
{
    return hf_debug_heap_usable(ptr, OUR_CALL(hf_malloc));
}

char *hf_strdup(const char *s)
{
    size_t size = strlen(s) + 1;
    char *copy = hf_debug_heap_allocate(0, size, OUR_CALL(hf_allocate));
    return copy != NULL ? memcpy(copy, s, size) : NULL;
}

char *hf_strndup(const char *s, size_t n)
{
    size_t length = strnlen(s, n);
    char *copy = hf_debug_heap_allocate(0, length + 1, OUR_CALL(hf_allocate));
    if (copy == NULL)
        return NULL;
    copy[length] = '\0';
    return memcpy(copy, s, length);
}

bool hf_delete_foreign(void *ptr, enum hf_delete_form form, size_t alignment)
{
    /* The process's operator, which the caller tries next, is process.c's. It records the free. */
    (void)ptr;
    (void)form;
    (void)alignment;
    return false;
}
