/*
 * What the functions of mine.c were called with.
 */
#ifndef HOMEFREE_TESTS_LOADER_SERVING_MINE_H
#define HOMEFREE_TESTS_LOADER_SERVING_MINE_H

#include <stddef.h>

struct mine_call {
    const void *first;
    size_t second, third, count;
};

const struct mine_call *mine_last(void);

#endif
