/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The layout of a profile in memory (satellites/profile/book.h): one piece that refers to itself by
 * offsets alone, so that a copy of it, which another process has read, can be used as well. A
 * reader sees it while it changes, and trusts nothing in it.
 *
 * A reference is an offset from the book's beginning, in units of 8 bytes; 0: nothing. What a
 * reference leads to never changes, but for samples, until the next profile begins.
 *
 * Owns nothing.
 */
#ifndef HOMEFREE_ALLOC_BASE_PROFILE_BOOK_H
#define HOMEFREE_ALLOC_BASE_PROFILE_BOOK_H

#include <stdint.h>

#define HF_BOOK_MAGIC "homefree book 1"
enum { HF_BOOK_UNIT = 8, HF_BOOK_FRAMES_MAX = 32, HF_BOOK_TEXT_MAX = 4096 };

struct hf_book {
    char magic[16];
    uint64_t bytes; /* reserved, from the book's beginning */
    uint64_t used;  /* up to the last node; what lies behind is nothing */
    uint64_t mean;  /* of so many bytes, one makes its block a sample */
    uint64_t lost;  /* samples for which there was no room */
    uint32_t samples, samples_used, samples_most; /* a reference, and numbers of struct
                                                     hf_book_sample */
    uint32_t free_sample;                         /* its number + 1; 0: none */
    uint32_t sample_buckets, sample_buckets_mask; /* each a sample's number + 1; 0: none */
    uint32_t node_buckets, node_buckets_mask;     /* each a reference */
};

struct hf_book_sample {
    uint64_t block; /* 0: none */
    uint64_t bytes;
    uint32_t stack; /* a reference; 0: unknown */
    uint32_t next;  /* its number + 1 */
};

/* In front of what is kept once, however often it is referred to. References lead behind it. */
struct hf_book_node {
    uint32_t next, hash;
    uint32_t size; /* bytes of what follows */
    uint32_t unused;
};

/* A stack. Behind it come `frames` return addresses, and `python` references to places; innermost
 * first. */
struct hf_book_stack {
    uint32_t object; /* a text */
    uint16_t frames, python;
};

struct hf_book_place {
    uint32_t function, file; /* texts, which end in a zero */
    uint32_t line;
    uint32_t unused;
};

/* How many blocks of that size a sample stands for: 1 / (1 - exp(-bytes / mean)), without libm, by
 * the series of the exponential function near 0, and from there by doubling. */
static inline double hf_book_weight(const struct hf_book *book, uint64_t bytes)
{
    enum { TERMS = 12, DOUBLINGS = 8 };
    const double quarter = 0.25;
    double x = (double)bytes / (double)book->mean, sum = 0;
    int doublings = 0;
    for (; x > quarter && doublings < DOUBLINGS; doublings++)
        x /= 2;
    if (x > quarter)
        return 1;
    for (int i = TERMS; i > 0; i--)
        sum = (1 - sum) * x / i;
    for (; doublings > 0; doublings--)
        sum *= 2 - sum;
    return 1 / sum;
}

#endif
