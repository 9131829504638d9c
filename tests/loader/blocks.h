/* What the tests of other allocators do with those allocators' blocks. */
#ifndef HOMEFREE_TESTS_LOADER_BLOCKS_H
#define HOMEFREE_TESTS_LOADER_BLOCKS_H

#include "death.h"
#include "modules/user.h"

#include <check.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#if defined(__aarch64__)
/* glibc loads no library whose thread-local data has a larger alignment than that of the objects
 * loaded at start. Its own is 16 there and 64 on x86-64; tcmalloc's is 64. */
static _Thread_local char wide_alignment[64] __attribute__((aligned(64), used));
#endif

/* Frees many blocks and a large one. The wrong allocator would not survive that, and the right one
 * hands the blocks out again. */
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

/* A block that contains "content" still does after it was resized. */
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

/* libc grows a line of `size` bytes until a long text fits into it. */
static inline char *grow_line(char *line, size_t size)
{
    static char text[20000];
    memset(text, 'x', sizeof text - 1);
    FILE *stream = fmemopen(text, sizeof text - 1, "r");
    ck_assert_int_eq(getdelim(&line, &size, '\n', stream), sizeof text - 1);
    fclose(stream);
    return line;
}

/* The next size of a thread: mostly small ones, and `large` once in fifty times. */
static inline size_t next_size(unsigned *random, size_t large)
{
    *random = *random * 1664525 + 1013904223;
    return (*random >> 8) % 50 == 0 ? large : (*random >> 8) % 3000 + 1;
}

/* How threads exchange blocks; `random` differs for each block. */
struct exchange {
    int rounds;
    size_t large; /* the size of one block in fifty */
    char *(*allocate)(unsigned random, size_t size);
    void (*release)(unsigned random, void *block);
};

/* Allocates blocks and puts each where any thread may take it; frees the block that was there. */
static inline void exchange_blocks(const struct exchange *how, unsigned random)
{
    static char *places[64];
    for (int i = 0; i < how->rounds; i++) {
        size_t size = next_size(&random, how->large);
        char *block = how->allocate(random, size);
        must(block != NULL);
        block[0] = block[size - 1] = 1;
        how->release(random,
                     __atomic_exchange_n(&places[(random >> 24) % 64], block, __ATOMIC_ACQ_REL));
    }
}

struct exchanger {
    const struct exchange *how;
    unsigned number;
    pthread_t thread;
};

static inline void *run_exchanger(void *context)
{
    const struct exchanger *exchanger = context;
    exchange_blocks(exchanger->how, exchanger->number);
    return NULL;
}

/* Four threads do it at once. */
static inline void exchange_in_threads(const struct exchange *how)
{
    struct exchanger threads[4];
    for (unsigned i = 0; i < 4; i++) {
        threads[i].how = how;
        threads[i].number = i * 77;
        ck_assert_int_eq(pthread_create(&threads[i].thread, NULL, run_exchanger, &threads[i]), 0);
    }
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i].thread, NULL);
}

#endif
