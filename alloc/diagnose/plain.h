/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The plain heap beneath the diagnosed one: what the front end implements (heap/front_end.h), under
 * the names that rename.txt gives it in libhomefree-diagnose.so. Everything above calls the names
 * of front_end.h, and so gets the debug heap.
 *
 * Owns nothing. The rules of that header hold.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_PLAIN_H
#define HOMEFREE_ALLOC_DIAGNOSE_PLAIN_H

#include "alloc/heap/front_end.h"

void *hf_plain_malloc(size_t size);
void hf_plain_free(void *ptr);
void *hf_plain_calloc(size_t count, size_t size);
void *hf_plain_realloc(void *ptr, size_t size, const void *caller);
void *hf_plain_aligned(size_t alignment, size_t size);
size_t hf_plain_usable(const void *ptr, const void *caller);
size_t hf_plain_asked(const void *ptr, const void *caller);
bool hf_plain_boot(enum hf_checks checks);
size_t hf_plain_block(const void *ptr, const void **block);

#endif
