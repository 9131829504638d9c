/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See suggest.h.
 */
#include "loader/command/suggest.h"

#include <stdbool.h>
#include <string.h>

enum { LONGEST = 40 };

static unsigned least(unsigned one, unsigned other)
{
    return one < other ? one : other;
}

/* The number of single letters to insert, remove or change, or of neighbours to exchange, that make
 * one word of the other (the restricted form of Damerau's distance). Both are at most LONGEST long.
 */
static unsigned distance(const char *one, size_t one_length, const char *other, size_t other_length)
{
    unsigned rows[3][LONGEST + 1];
    for (size_t j = 0; j <= other_length; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= one_length; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i + 2) % 3], *top = rows[(i + 1) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= other_length; j++) {
            const bool same = one[i - 1] == other[j - 1];
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (same ? 0 : 1));
            if (i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1])
                row[j] = least(row[j], top[j - 2] + 1);
        }
    }
    return rows[one_length % 3][other_length];
}

const char *hf_suggest(const char *typed, hf_suggest_word *words, const void *context)
{
    const size_t length = strlen(typed);
    const char *best = NULL, *word;
    unsigned nearest = (unsigned)(length + 2) / 3;
    if (length < 2 || length > LONGEST)
        return NULL;
    for (size_t i = 0; (word = words(i, context)) != NULL; i++) {
        const size_t other = strlen(word);
        if (other > LONGEST)
            continue;
        const unsigned found =
            strncmp(word, typed, length) == 0 ? 0 : distance(typed, length, word, other);
        if (found < nearest || (best == NULL && found == nearest)) {
            best = word;
            nearest = found;
        }
    }
    return best;
}
