/* Numbers that look random and come again with the same seed: xorshift64*. For one thread. */
#ifndef HOMEFREE_TESTS_SUPPORT_RANDOM_H
#define HOMEFREE_TESTS_SUPPORT_RANDOM_H

#include <stdint.h>
#include <stdlib.h>

static uint64_t random_state = 1; /* never 0 */

static inline uint64_t random_next(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * UINT64_C(2685821657736338717);
}

/* Returns a number from 0 to below `limit`; 0 if that is 0. */
static inline uint64_t random_below(uint64_t limit)
{
    return limit == 0 ? 0 : random_next() % limit;
}

/* Begins with a program's first two arguments, SEED and ROUNDS. Result: the rounds; fewer under
 * valgrind. */
static inline unsigned long random_rounds(char **arguments)
{
    random_state = strtoull(arguments[1], NULL, 10) * 2 + 1;
    unsigned long rounds = strtoul(arguments[2], NULL, 10);
    return getenv("CK_FORK") == NULL ? rounds : rounds / 20 + 1;
}

#endif
