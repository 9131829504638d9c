/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What libhomefree and the satellite libhomefree-adopt.so call of each other. Owns nothing.
 */
#ifndef HOMEFREE_LOADER_SATELLITES_ADOPT_TABLES_H
#define HOMEFREE_LOADER_SATELLITES_ADOPT_TABLES_H

#include "alloc/base/dynlink.h"
#include "alloc/base/options.h"
#include "loader/elf/elf_file.h"

#include <limits.h>

/* The core's functions. */
struct hf_adopt_core {
    const struct hf_options *options;
    bool (*adopted_elsewhere)(const void *block); /* copies refer to it */
#define HF_CORE_GIVES(result, name, parameters, arguments) result(*name) parameters;
#define HF_CORE_DOES(name, parameters, arguments)          void(*name) parameters;
#include "loader/satellites/adopt_tables.def"
};

/* Who outlives an interpreter and may use its memory: an object's path, and why. */
typedef void hf_lent_leaver(void *context, const char *path, const char *why);

/* The satellite's. */
struct hf_adopt_functions {
    int (*adopt_file)(const char *path, char *out, size_t size, bool selected);
    int (*private_copy)(const char *path, char *out, size_t size);
    int (*private_remove)(const char *path);
    const char *(*copy_directory)(const struct link_map *map);
    int (*private_lend)(const char *path, void *handle, int64_t interpreter);
    void *(*private_reuse)(const char *path, int64_t interpreter);
    bool (*lent_ended)(int64_t interpreter, hf_lent_leaver *tell, void *context);
    int (*lent_common)(int64_t interpreter, void *handle);
    void (*lent_entered)(int64_t interpreter);
};

#endif
