/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A heap of one's own (heaps.h), for whoever takes blocks from it.
 */
#ifndef HOMEFREE_ALLOC_SPANS_OWN_HEAP_H
#define HOMEFREE_ALLOC_SPANS_OWN_HEAP_H

#include "alloc/spans/local.h"

#include <pthread.h>

struct hf_heap {
    struct hf_local *local; /* NULL: dropped */
    struct hf_heap *next;
    pthread_mutex_t lock;
};

#endif
