/* What the tests of other allocators do with those allocators' blocks. */
#ifndef TESTS_LOADER_BLOCKS_H
#define TESTS_LOADER_BLOCKS_H

#include "modules/user.h"

#include <check.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Frees many blocks, and a large one: the wrong allocator would not survive that, and the right one
 * gives them out again. */
static inline void assert_given_out_again(char *(*block_of)(size_t size), size_t large,
                                          void (*release)(void *ptr))
{
    enum { BLOCKS = 1000 };
    static char *blocks[BLOCKS], *first[BLOCKS];
    int again = 0;
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < BLOCKS; i++)
            blocks[i] = memset(block_of((size_t)i % 100 + 1), 1, (size_t)i % 100 + 1);
        for (int i = 0; i < BLOCKS && round > 0; i++)
            for (int j = 0; j < BLOCKS; j++)
                again += blocks[i] == first[j];
        if (round == 0)
            memcpy(first, blocks, sizeof first);
        for (int i = 0; i < BLOCKS; i++)
            release(blocks[i]);
    }
    ck_assert_msg(again > 0, "no block was ever given out again");
    release(block_of(large));
}

/* A block that holds "content" holds it when it was resized, too. */
static inline char *resize_content(void *(*resize)(void *ptr, size_t size), char *block,
                                   size_t size)
{
    block = resize(block, size);
    ck_assert_str_eq(block, "content");
    return block;
}

static inline char *resize_array_content(const struct user *user, char *block, size_t count,
                                         size_t size)
{
    block = user->resize_array(block, count, size);
    ck_assert_str_eq(block, "content");
    return block;
}

/* The next of a thread's sizes: small ones mostly, and one in fifty is `large`. */
static inline size_t next_size(unsigned *random, size_t large)
{
    *random = *random * 1664525 + 1013904223;
    return (*random >> 8) % 50 == 0 ? large : (*random >> 8) % 3000 + 1;
}

/* Four threads run this at once, each with a number of its own. */
static inline void run_in_threads(void *(*body)(void *number))
{
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, body, (void *)(i * 77)), 0);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

#endif
