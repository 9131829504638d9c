/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions of homefree/space.h, for struct hf_cuda_satellite. Owns nothing. */
#ifndef HOMEFREE_SATELLITES_CUDA_SPACE_SPACES_H
#define HOMEFREE_SATELLITES_CUDA_SPACE_SPACES_H

#include <homefree/homefree.h>

/* fast.c */
int hf_spaces_alloc(void **out, enum hf_space_kind kind, int device, size_t size, size_t alignment,
                    void *stream);
int hf_spaces_free(void *ptr, void *stream);

int hf_spaces_use(void *ptr, void *stream);
int hf_spaces_of(const void *ptr, struct hf_space *out);
int hf_spaces_stats(enum hf_space_kind kind, int device, void *stream, struct hf_space_stats *out);
int hf_spaces_limit(enum hf_space_kind kind, int device, uint64_t bytes);
int hf_spaces_trim(enum hf_space_kind kind, int device, uint64_t keep, uint64_t *released);
int hf_spaces_order(int device, void *before, void *after);
int hf_spaces_reason(enum hf_space_kind kind, int device, char *text, size_t size);

/* What the fast paths do not do. */
int hf_spaces_alloc_slowly(void **out, enum hf_space_kind kind, int device, size_t size,
                           size_t alignment, void *stream);
int hf_spaces_free_slowly(void *ptr, void *stream);

#endif
