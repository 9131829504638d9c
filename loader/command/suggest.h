/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds what a mistyped word may have been meant to be. No state; any thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_SUGGEST_H
#define HOMEFREE_LOADER_COMMAND_SUGGEST_H

#include <stddef.h>

/* The word with that index, or NULL after the last. */
typedef const char *hf_suggest_word(size_t index, const void *context);

/* Returns the word that is nearest to `typed`: at most a third of its letters differ, are missing,
 * too many or exchanged with their neighbours; or it begins with `typed`. NULL: none is near. */
const char *hf_suggest(const char *typed, hf_suggest_word *words, const void *context);

#endif
