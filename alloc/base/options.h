/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The options of HOMEFREE_CONF, a comma-separated list of key:value pairs that options_parse.h
 * reads once while the heap starts.
 *
 * Owned by options.c; read-only, and so lock-free, once the heap has started.
 */
#ifndef HOMEFREE_ALLOC_BASE_OPTIONS_H
#define HOMEFREE_ALLOC_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Values of adopt, and the room for file patterns. */
enum { HF_ADOPT_NONE, HF_ADOPT_ALL, HF_ADOPT_PATTERNS, HF_PATTERNS_MAX = 1024 };
/* Values of cuda and last_words, and the room for a path. */
enum { HF_FILE_NONE, HF_FILE_PATH, HF_PATH_MAX = 1024 };
/* Values of background. */
enum { HF_BACKGROUND_AUTO, HF_BACKGROUND_ON, HF_BACKGROUND_OFF };

struct hf_options {
#define HF_OPTION(name, type, preset, minimum, maximum, unit, help) uint64_t name;
#include "alloc/base/options.def"
#undef HF_OPTION
    char adopt_patterns[HF_PATTERNS_MAX]; /* with HF_ADOPT_PATTERNS: as they were given */
    char cuda_path[HF_PATH_MAX];          /* with HF_FILE_PATH */
    char last_words_path[HF_PATH_MAX];    /* the same */
};

/* Values of static_free. */
enum { HF_STATIC_FREE_FATAL, HF_STATIC_FREE_IGNORE };
/* Values of unknown_free. */
enum { HF_UNKNOWN_FREE_FATAL, HF_UNKNOWN_FREE_LEAK };

/* The options in force; defaults until hf_options_read() has run. */
extern struct hf_options hf_options;

/* Whether a file with that absolute path is to be adopted, by the options alone. */
bool hf_options_adopt(const struct hf_options *options, const char *path);

/* A row of the option table, for help and manual pages; NULL past the end. */
struct hf_option_row {
    const char *name, *type, *unit, *help;
    uint64_t preset, minimum, maximum;
};
const struct hf_option_row *hf_option_row(size_t index);
/* A type whose values are words. */
struct hf_option_choice {
    const char *type;
    const char *const *words;
    size_t count;
};
/* The words of a row's type; NULL if its values are numbers. */
const struct hf_option_choice *hf_option_choice_of(const struct hf_option_row *row);
/* Formats a row's default in HOMEFREE_CONF syntax: "16T", "on". */
void hf_option_preset(const struct hf_option_row *row, char *out, size_t size);

#endif
