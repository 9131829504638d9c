/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The processor's vector instructions, behind two functions. The only place that knows them.
 */
#ifndef HOMEFREE_ALLOC_SPANS_VECTOR_H
#define HOMEFREE_ALLOC_SPANS_VECTOR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SANITIZE_THREAD__)

/* Byte by byte, as ThreadSanitizer sees the loads. */
static inline uint64_t hf_bytes_equal(const uint8_t *bytes, uint8_t value)
{
    uint64_t mask = 0;
    for (int i = 0; i < 64; i++)
        mask |= (uint64_t)(__atomic_load_n(&bytes[i], __ATOMIC_ACQUIRE) == value) << i;
    return mask;
}

static inline uint64_t hf_bytes_high(const uint8_t *bytes)
{
    uint64_t mask = 0;
    for (int i = 0; i < 64; i++)
        mask |= (uint64_t)(__atomic_load_n(&bytes[i], __ATOMIC_ACQUIRE) >> 7) << i;
    return mask;
}

#elif defined(__SSE2__)
#    include <emmintrin.h>

/* One bit for each of 64 bytes, at a multiple of 16, that has the value; the first is the lowest.
 */
static inline uint64_t hf_bytes_equal(const uint8_t *bytes, uint8_t value)
{
    const __m128i wanted = _mm_set1_epi8((char)value);
    uint64_t mask = 0;
    for (size_t i = 0; i < 4; i++) {
        const __m128i some = _mm_load_si128((const __m128i *)(const void *)(bytes + 16 * i));
        mask |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(some, wanted)) << (16 * i);
    }
    return mask;
}

/* The same for bytes of 128 or more. */
static inline uint64_t hf_bytes_high(const uint8_t *bytes)
{
    uint64_t mask = 0;
    for (size_t i = 0; i < 4; i++) {
        const __m128i some = _mm_load_si128((const __m128i *)(const void *)(bytes + 16 * i));
        mask |= (uint64_t)(uint32_t)_mm_movemask_epi8(some) << (16 * i);
    }
    return mask;
}

#else

static inline uint64_t hf_bytes_equal(const uint8_t *bytes, uint8_t value)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), sevens = ones * 0x7f;
    uint64_t mask = 0;
    for (int i = 0; i < 8; i++) {
        uint64_t word;
        memcpy(&word, bytes + 8 * i, sizeof word);
        word ^= ones * value;
        /* The high bit of each byte that is zero; none carries into the next. */
        word = ~(((word & sevens) + sevens) | word | sevens);
#    if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
#    endif
        mask |= ((word >> 7) * UINT64_C(0x0102040810204080) >> 56) << (8 * i);
    }
    return mask;
}

static inline uint64_t hf_bytes_high(const uint8_t *bytes)
{
    const uint64_t highest = UINT64_C(0x8080808080808080);
    uint64_t mask = 0;
    for (int i = 0; i < 8; i++) {
        uint64_t word;
        memcpy(&word, bytes + 8 * i, sizeof word);
        word &= highest;
#    if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
#    endif
        mask |= ((word >> 7) * UINT64_C(0x0102040810204080) >> 56) << (8 * i);
    }
    return mask;
}

#endif

#endif
