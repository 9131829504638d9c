/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Python, which makes of a result what people read (python/homefree/command). The command reads
 * files and processes.
 *
 * No state. One thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_PROGRAM_PYTHON_H
#define HOMEFREE_LOADER_COMMAND_PROGRAM_PYTHON_H

#include "loader/command/arguments.h"
#include "loader/command/keep.h"

/* Finds the Python that this command belongs to: the one that ran `python -m homefree`, the one
 * beside the command, the one for which the package was installed, or just "python3". */
void hf_python_find(char *out, size_t capacity);

/* The path of a file of python/homefree/command, to be freed; NULL if it is not there. */
char *hf_python_file(const char *name);

/* Whether there seems to be a Python to become. Returns HF_EXIT_CLEAN, or HF_EXIT_FAILED after the
 * error message of hf_python_become(). */
int hf_python_check(const char *who, const char *instead);

/* Composes a document in memory that stays when this process becomes Python, and not in what that
 * takes for its stdin, stdout or stderr where these are closed. `document` receives its descriptor,
 * or -1 if it need not be shown. Returns HF_EXIT_CLEAN, or HF_EXIT_FAILED after an error message by
 * `who`. */
int hf_python_document(const char *who, hf_command_composer *compose, void *context, int *document);

/* The words that Python gets, each "NAME=VALUE", in memory of `keep`. Descriptors in them stay
 * open.
 */
struct hf_words {
    struct hf_keep *keep;
    const char **values;
    size_t count;
};

/* Adds a word. A value that is NULL adds none. */
void hf_words_add(struct hf_words *words, const char *name, const char *value);

/* Adds the options of a table that were given, but those with a `take`: a flag as "NAME=1". */
void hf_words_add_options(struct hf_words *words, const struct hf_argument *arguments,
                          const void *request);

/* Becomes the module `part` of python/homefree/command, whose first word is "self=" and this
 * command's path. Returns HF_EXIT_FAILED after an error message by `who`, which says that another
 * Python or `instead` helps. */
int hf_python_become(const char *who, const char *part, const struct hf_words *words,
                     const char *instead);

#endif
