/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See keep.h. Tables use open addressing and are at most half full.
 */
#include "loader/command/keep.h"

#include "loader/command/command.h"
#include "loader/command/text.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum { BLOCK = 1 << 18, ALIGNMENT = alignof(max_align_t) };

struct hf_keep_block {
    struct hf_keep_block *earlier;
    size_t size; /* of `bytes` */
    alignas(max_align_t) char bytes[];
};

void hf_keep_out_of_memory(void)
{
    exit(hf_command_out_of_memory("homefree"));
}

void *hf_keep_bytes(struct hf_keep *keep, size_t size)
{
    if (size > SIZE_MAX / 2)
        hf_keep_out_of_memory();
    size = (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    struct hf_keep_block *block = keep->last;
    if (block == NULL || block->size - keep->used < size) {
        const size_t capacity = size > BLOCK ? size : BLOCK;
        block = calloc(1, sizeof *block + capacity);
        if (block == NULL)
            hf_keep_out_of_memory();
        block->size = capacity;
        if (size > BLOCK && keep->last != NULL) {
            /* It is full at once: the current block stays the one to allocate from. */
            block->earlier = keep->last->earlier;
            keep->last->earlier = block;
            return block->bytes;
        }
        block->earlier = keep->last;
        keep->last = block;
        keep->used = 0;
    }
    void *const result = block->bytes + keep->used;
    keep->used += size;
    return result;
}

char *hf_keep_part(struct hf_keep *keep, const char *text, size_t length)
{
    char *copy = hf_keep_bytes(keep, length + 1);
    if (length > 0)
        memcpy(copy, text, length);
    return copy;
}

char *hf_keep_text(struct hf_keep *keep, const char *text)
{
    return hf_keep_part(keep, text, strlen(text));
}

char *hf_keep_format(struct hf_keep *keep, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = hf_text_format(format, arguments);
    va_end(arguments);
    if (text == NULL)
        hf_keep_out_of_memory();
    char *copy = hf_keep_text(keep, text);
    free(text);
    return copy;
}

void *hf_keep_more(struct hf_keep *keep, void *array, size_t count, size_t element)
{
    enum { FIRST = 4 };
    /* It is full when its count is 0, or FIRST times a power of two. */
    const bool full = count == 0 || (count >= FIRST && (count & (count - 1)) == 0);
    if (!full)
        return array;
    const size_t capacity = count == 0 ? FIRST : count * 2;
    if (capacity > SIZE_MAX / 4 / element)
        hf_keep_out_of_memory();
    void *larger = hf_keep_bytes(keep, capacity * element);
    if (count > 0)
        memcpy(larger, array, count * element);
    return larger;
}

void hf_keep_release(struct hf_keep *keep)
{
    for (struct hf_keep_block *block = keep->last; block != NULL;) {
        struct hf_keep_block *earlier = block->earlier;
        free(block);
        block = earlier;
    }
    *keep = (struct hf_keep){.last = NULL};
}

/* ---- tables --------------------------------------------------------------------------------- */

void hf_keep_table_begin(struct hf_keep_table *table, struct hf_keep *keep, size_t key_size)
{
    enum { FIRST = 64 };
    *table = (struct hf_keep_table){.keep = keep, .key_size = key_size, .capacity = FIRST};
    table->slots = hf_keep_bytes(keep, FIRST * sizeof *table->slots);
    if (getrandom(&table->seed, sizeof table->seed, GRND_NONBLOCK) != sizeof table->seed)
        table->seed = (uint64_t)time(NULL);
}

static size_t size_of_key(const struct hf_keep_table *table, const void *key)
{
    return table->key_size != 0 ? table->key_size : strlen(key) + 1;
}

static uint64_t mix(uint64_t value)
{
    value ^= value >> 32;
    value *= UINT64_C(0xd6e8feb86659fd93);
    value ^= value >> 29;
    value *= UINT64_C(0xc2b2ae3d27d4eb4f);
    return value ^ value >> 31;
}

static uint64_t hash_of(const struct hf_keep_table *table, const void *key)
{
    const char *at = key;
    uint64_t hash = table->seed;
    for (size_t left = size_of_key(table, key); left > 0;) {
        uint64_t word = 0;
        const size_t part = left < sizeof word ? left : sizeof word;
        memcpy(&word, at, part);
        hash = mix(hash ^ word) + table->seed;
        at += part;
        left -= part;
    }
    return mix(hash);
}

static bool same(const struct hf_keep_table *table, const void *one, const void *other)
{
    return table->key_size != 0 ? memcmp(one, other, table->key_size) == 0
                                : strcmp(one, other) == 0;
}

/* The slot of the key: with its value, or empty. */
static const void **slot_of(const struct hf_keep_table *table, const void *key)
{
    size_t at = hash_of(table, key) & (table->capacity - 1);
    while (table->slots[at] != NULL && !same(table, table->slots[at], key))
        at = (at + 1) & (table->capacity - 1);
    return &table->slots[at];
}

void *hf_keep_table_find(const struct hf_keep_table *table, const void *key)
{
    union {
        const void *shared;
        void *own;
    } value = {*slot_of(table, key)};
    return value.own;
}

void hf_keep_table_add(struct hf_keep_table *table, void *value)
{
    if (table->count * 2 >= table->capacity) {
        const struct hf_keep_table small = *table;
        table->capacity *= 2;
        table->slots = hf_keep_bytes(table->keep, table->capacity * sizeof *table->slots);
        for (size_t i = 0; i < small.capacity; i++)
            if (small.slots[i] != NULL)
                *slot_of(table, small.slots[i]) = small.slots[i];
    }
    *slot_of(table, value) = value;
    table->count++;
}
