/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See book.h.
 */
#include "satellites/profile/book.h"

#include <string.h>
#include <sys/mman.h>

struct hf_book *hf_book;

enum { NODE_BUCKETS = 1 << 14, SAMPLE_BYTES = 128, CHAIN = 16 };
static const size_t MOST = (size_t)64 << 20, LEAST = (size_t)4 << 20;

static size_t reserve(void)
{
    for (size_t bytes = MOST; bytes >= LEAST; bytes /= 4) {
        void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at != MAP_FAILED) {
            hf_book = at;
            return bytes;
        }
    }
    return 0;
}

/* The next part of what has fixed places. */
static uint32_t place(uint64_t *end, size_t bytes)
{
    const uint32_t at = (uint32_t)(*end / HF_BOOK_UNIT);
    *end += (bytes + HF_BOOK_UNIT - 1) & -(size_t)HF_BOOK_UNIT;
    return at;
}

bool hf_book_begin(uint64_t mean)
{
    const size_t bytes = hf_book != NULL ? hf_book->bytes : reserve();
    if (bytes == 0)
        return false;
    if (madvise(hf_book, bytes, MADV_DONTNEED) != 0)
        memset(hf_book, 0, bytes);
    const uint32_t samples = (uint32_t)(bytes / SAMPLE_BYTES), buckets = samples / CHAIN;
    struct hf_book book = {
        .magic = HF_BOOK_MAGIC,
        .bytes = bytes,
        .used = sizeof *hf_book,
        .mean = mean,
        .samples_most = samples,
        .sample_buckets_mask = buckets - 1,
        .node_buckets_mask = NODE_BUCKETS - 1,
    };
    book.sample_buckets = place(&book.used, buckets * sizeof(uint32_t));
    book.node_buckets = place(&book.used, NODE_BUCKETS * sizeof(uint32_t));
    book.samples = place(&book.used, samples * sizeof(struct hf_book_sample));
    *hf_book = book;
    return true;
}

static uint32_t hash_of(const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    uint64_t hash = size, word;
    for (; size >= sizeof word; at += sizeof word, size -= sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    for (; size > 0; at++, size--)
        hash = (hash ^ *at) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(hash >> 32);
}

uint32_t hf_book_keep(const void *bytes, size_t size)
{
    const uint32_t hash = hash_of(bytes, size);
    uint32_t *bucket =
        (uint32_t *)hf_book_at(hf_book->node_buckets) + (hash & hf_book->node_buckets_mask);
    struct hf_book_node *node;
    for (uint32_t at = *bucket; at != 0; at = node->next) {
        node = (struct hf_book_node *)hf_book_at(at) - 1;
        if (node->hash == hash && node->size == size && memcmp(node + 1, bytes, size) == 0)
            return at;
    }
    const size_t all = (sizeof *node + size + HF_BOOK_UNIT - 1) & -(size_t)HF_BOOK_UNIT;
    if (all > hf_book->bytes - hf_book->used)
        return 0;
    node = (struct hf_book_node *)(void *)((char *)hf_book + hf_book->used);
    *node = (struct hf_book_node){.next = *bucket, .hash = hash, .size = (uint32_t)size};
    memcpy(node + 1, bytes, size);
    const uint32_t at = (uint32_t)((hf_book->used + sizeof *node) / HF_BOOK_UNIT);
    __atomic_store_n(&hf_book->used, hf_book->used + all, __ATOMIC_RELEASE);
    __atomic_store_n(bucket, at, __ATOMIC_RELEASE);
    return at;
}
