/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing; see byte_search.h.
 *
 * Sixteen bytes at a time are compared with the two bytes of each anchor. Where both agree, which
 * is rare, the texts are compared. memmem(3) skips ahead by the length of what it looks for, but
 * each step waits for two loads, and it takes one pass for each text.
 */
#include "loader/elf/byte_search.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum { DISTANCE = 5, SHORTEST = 8, STEP = 16 };

typedef uint8_t vector __attribute__((vector_size(STEP), aligned(1), may_alias));
typedef uint64_t halves __attribute__((vector_size(STEP)));

/* Returns the offset in a text of these two bytes, or its length. */
static size_t place_in(const char *text, size_t length, uint8_t first, uint8_t second)
{
    for (size_t i = 0; i + DISTANCE < length; i++)
        if ((uint8_t)text[i] == first && (uint8_t)text[i + DISTANCE] == second)
            return i;
    return length;
}

static uint32_t texts_with(const struct hf_search *search, uint32_t left, uint8_t first,
                           uint8_t second)
{
    uint32_t with = 0;
    for (size_t i = 0; i < search->count; i++)
        if ((left >> i & 1) != 0 && place_in(search->texts[i].bytes, search->texts[i].length, first,
                                             second) != search->texts[i].length)
            with |= UINT32_C(1) << i;
    return with;
}

/* Adds the anchor that most of the texts that are left have; the first of several. */
static uint32_t add_anchor(struct hf_search *search, uint32_t left)
{
    uint8_t first = 0, second = 0;
    uint32_t best = 0;
    for (size_t i = 0; i < search->count; i++)
        for (size_t at = 0; (left >> i & 1) != 0 && at + DISTANCE < search->texts[i].length; at++) {
            const uint8_t one = (uint8_t)search->texts[i].bytes[at],
                          other = (uint8_t)search->texts[i].bytes[at + DISTANCE];
            const uint32_t with = texts_with(search, left, one, other);
            if (__builtin_popcount(with) > __builtin_popcount(best)) {
                first = one;
                second = other;
                best = with;
            }
        }
    search->anchors[search->anchors_count].first = first;
    search->anchors[search->anchors_count].second = second;
    search->anchors[search->anchors_count++].texts = best;
    for (size_t i = 0; i < search->count; i++)
        if ((best >> i & 1) != 0)
            search->texts[i].anchor =
                place_in(search->texts[i].bytes, search->texts[i].length, first, second);
    return best;
}

int hf_search_prepare(struct hf_search *search, const char *const *texts, const size_t *lengths,
                      size_t count)
{
    uint32_t left = 0;
    search->count = search->anchors_count = 0;
    if (count > HF_SEARCH_MAX)
        return -E2BIG;
    for (size_t i = 0; i < count; i++) {
        if (lengths[i] < SHORTEST)
            return -EINVAL;
        search->texts[i].bytes = texts[i];
        search->texts[i].length = lengths[i];
        left |= UINT32_C(1) << i;
    }
    search->count = count;
    while (left != 0)
        left &= ~add_anchor(search, left);
    return 0;
}

/* The bytes that are searched, and what was found in them. */
struct state {
    const struct hf_search *search;
    const uint8_t *bytes;
    size_t size;
    uint32_t wanted, found;
};

/* Compares the texts that have this anchor. Not inlined into the loop. */
static __attribute__((noinline)) void compare(struct state *state, size_t anchor, size_t at)
{
    const struct hf_search *search = state->search;
    for (size_t i = 0; i < search->count; i++) {
        const size_t before = search->texts[i].anchor, length = search->texts[i].length;
        if ((search->anchors[anchor].texts >> i & 1) != 0 && at >= before &&
            length <= state->size - (at - before) &&
            memcmp(state->bytes + (at - before), search->texts[i].bytes, length) == 0)
            state->found |= state->wanted & UINT32_C(1) << i;
    }
}

static __attribute__((noinline)) void compare_bits(struct state *state, size_t anchor, size_t at,
                                                   halves bits)
{
    for (size_t half = 0; half < 2; half++)
        for (uint64_t left = bits[half]; left != 0;) {
            const size_t byte = (size_t)__builtin_ctzll(left) / 8;
            compare(state, anchor, at + half * sizeof left + byte);
            left &= ~(UINT64_C(0xff) << byte * 8);
        }
}

static inline vector all(uint8_t byte)
{
    const vector zero = {0};
    return zero + byte;
}

/* Looks at the places from `at` on as long as whole vectors are left. Result: where it ended.
 * `count` is a constant, so that the anchors stay in registers. */
static inline __attribute__((always_inline)) size_t
search_vectors(struct state *state, size_t at, const size_t *numbers, const size_t count)
{
    vector first[2] = {{0}}, second[2] = {{0}};
    for (size_t i = 0; i < count; i++) {
        first[i] = all(state->search->anchors[numbers[i]].first);
        second[i] = all(state->search->anchors[numbers[i]].second);
    }
    for (; at + DISTANCE + STEP <= state->size; at += STEP) {
        const vector here = *(const vector *)(state->bytes + at),
                     there = *(const vector *)(state->bytes + at + DISTANCE);
        halves hits[2] = {{0}};
        for (size_t i = 0; i < count; i++)
            hits[i] = (halves)((here == first[i]) & (there == second[i]));
        const halves any = hits[0] | hits[1];
        if (__builtin_expect((any[0] | any[1]) == 0, 1))
            continue;
        for (size_t i = 0; i < count; i++)
            compare_bits(state, numbers[i], at, hits[i]);
    }
    return at;
}

/* Looks for one or two anchors. */
static void search_anchors(struct state *state, const size_t *numbers, size_t count)
{
    size_t at =
        count == 1 ? search_vectors(state, 0, numbers, 1) : search_vectors(state, 0, numbers, 2);
    for (; at + DISTANCE < state->size; at++)
        for (size_t i = 0; i < count; i++)
            if (state->bytes[at] == state->search->anchors[numbers[i]].first &&
                state->bytes[at + DISTANCE] == state->search->anchors[numbers[i]].second)
                compare(state, numbers[i], at);
}

uint32_t hf_search_in(const struct hf_search *search, const void *bytes, size_t size,
                      uint32_t wanted)
{
    struct state state = {search, bytes, size, wanted, 0};
    size_t numbers[2], count = 0;
    for (size_t i = 0; i < search->anchors_count; i++) {
        if ((search->anchors[i].texts & wanted) != 0)
            numbers[count++] = i;
        if (count == 2 || (count == 1 && i + 1 == search->anchors_count)) {
            search_anchors(&state, numbers, count);
            count = 0;
        }
    }
    return state.found;
}
