/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of a subcommand, such as that of a report while it is read and shown: allocated piece by
 * piece, released all at once, with tables in which every value exists once.
 *
 * Owns: everything allocated from a struct hf_keep, until hf_keep_release(). Where memory runs out,
 * the process ends with a message and HF_EXIT_FAILED: nothing has been printed or written by then.
 * One thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_KEEP_H
#define HOMEFREE_LOADER_COMMAND_KEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hf_keep {
    struct hf_keep_block *last;
    size_t used; /* bytes of the last block */
};

/* Ends the process for want of memory. */
__attribute__((noreturn)) void hf_keep_out_of_memory(void);

/* Zeroed memory for any type. */
void *hf_keep_bytes(struct hf_keep *keep, size_t size);

/* A copy of a string, or of `length` bytes, which ends with a zero byte. */
char *hf_keep_text(struct hf_keep *keep, const char *text);
char *hf_keep_part(struct hf_keep *keep, const char *text, size_t length);

__attribute__((format(printf, 2, 3))) char *hf_keep_format(struct hf_keep *keep, const char *format,
                                                           ...);

/*
 * Makes room for one more element of an array of `count` elements and returns the array, which may
 * have moved. The array must only be extended here; `count` is the caller's to increment.
 */
void *hf_keep_more(struct hf_keep *keep, void *array, size_t count, size_t element);
/* Counts one more element of an array, and is that element. */
#define HF_KEEP_ADD(keep, array, count) \
    (*((array) = hf_keep_more(keep, array, count, sizeof *(array)), &(array)[(count)++]))

void hf_keep_release(struct hf_keep *keep);

/* ---- tables --------------------------------------------------------------------------------- */

/* A set of pointers to values, found by the first `key_size` bytes of each value, or by all bytes
 * of a string (key_size 0). Keys must have no padding. The order of insertion does not matter. */
struct hf_keep_table {
    struct hf_keep *keep;
    size_t key_size;
    const void **slots;
    size_t capacity, count; /* a power of two */
    uint64_t seed;          /* random, so that a hostile file cannot choose what collides */
};

void hf_keep_table_begin(struct hf_keep_table *table, struct hf_keep *keep, size_t key_size);

/* The value with the same key, or NULL. */
void *hf_keep_table_find(const struct hf_keep_table *table, const void *key);

/* Adds a value whose key is not in the table. */
void hf_keep_table_add(struct hf_keep_table *table, void *value);

#endif
