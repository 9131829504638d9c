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
    void *(*malloc)(size_t size);
    void (*free)(void *ptr);
    char *(*strdup)(const char *text);
    void *(*dlopen)(const char *file, int mode); /* libc's, whatever routing has changed */
    void (*heap_start)(void);
    const struct hf_options *options;
    bool (*options_adopt)(const struct hf_options *options, const char *path);
    bool (*program_serves)(void);
    int (*loader_lock_run)(void (*run)(void *context), void *context);
    void (*route_new_objects)(void);
    const struct hf_adopted_note *(*adopted_loaded)(const struct link_map *map);
    bool (*adopted_copy_of)(const char *file, char copy[PATH_MAX]);
    bool (*finding_is_loaded)(const struct link_map *map, struct hf_elf *elf);
    bool (*guards_add)(const struct link_map *map, const void *start, const void *end);
    void (*guards_done)(const struct link_map *map);
    bool (*guards_has)(const struct link_map *map);
    bool (*adopted_elsewhere)(const void *block); /* copies refer to it */
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
