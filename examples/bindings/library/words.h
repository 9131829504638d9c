/*
 * words.h - the same library for C, and for what binds C. Out of memory ends the process; other
 * calls cannot fail.
 */
#ifndef WORDS_H
#define WORDS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct words;

/* An object: the words of a text. The caller deletes it. */
struct words *words_new(const char *text);
void words_delete(struct words *list);

size_t words_count(const struct words *list);

/* A string: the words, with the separator between them. The caller frees it with free(). */
char *words_join(const struct words *list, const char *separator);

/* An array: the length of each word. The caller frees it with free(). */
int64_t *words_lengths(const struct words *list);

/* A callback: calls visit with each word, until it returns something other than 0; it may add
 * words, which it is not called with. Result: what it returned last, or 0. */
int words_each(const struct words *list, int (*visit)(const char *word, void *context),
               void *context);

/* Adds a word that somebody allocated, and frees it. */
void words_take(struct words *list, char *word);

#ifdef __cplusplus
}
#endif

#endif
