/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See run_adopt.h. Owns nothing.
 *
 * Why LD_PRELOAD: a library that is loaded already is not searched for, if its soname is that of
 * the library that is needed. The auditing interface could replace paths as well, but an auditor is
 * loaded into every process that the program starts, with a libc of its own, and before glibc 2.35
 * it keeps symbols from being bound at the start.
 */
#include "loader/command/run/run_adopt.h"

#include "alloc/base/options.h"
#include "loader/command/command.h"
#include "loader/command/program/preload.h"
#include "satellites/adopt/adopted_copy.h"
#include "satellites/adopt/private/needed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LIBRARIES_MAX = 512 };

/* A library that the program needs, or that one of them needs. */
struct library {
    char *name;  /* as it is needed */
    char *entry; /* of LD_PRELOAD: a copy, the library's path, or its name */
    bool adopted;
};

/* All of them, in the dynamic linker's order: breadth first. */
struct needed {
    const char *who;
    struct hf_options options;
    struct library libraries[LIBRARIES_MAX];
    size_t count;
    bool failed;
};

int hf_run_select(const char *who, const char *patterns)
{
    const char *before = getenv("HOMEFREE_CONF");
    char *value = NULL;
    const bool empty = before == NULL || before[0] == '\0';
    if (asprintf(&value, "%s%sadopt:%s", empty ? "" : before, empty ? "" : ",", patterns) < 0)
        return hf_command_out_of_memory(who);
    const int result =
        setenv("HOMEFREE_CONF", value, 1) == 0 ? HF_EXIT_CLEAN : hf_command_out_of_memory(who);
    free(value);
    return result;
}

static void add(struct needed *needed, const char *name, const char *path)
{
    for (size_t i = 0; i < needed->count; i++)
        if (strcmp(needed->libraries[i].name, name) == 0)
            return;
    char *kept = strdup(name), *entry = strdup(path[0] != '\0' ? path : name);
    if (needed->count == LIBRARIES_MAX || kept == NULL || entry == NULL) {
        needed->failed = true;
        free(kept);
        free(entry);
        return;
    }
    needed->libraries[needed->count++] = (struct library){.name = kept, .entry = entry};
}

/* Adds what an object needs. */
static void add_needed(struct needed *needed, struct hf_elf *elf, const char *path)
{
    char directory[PATH_MAX], file[PATH_MAX];
    const char *name;
    const size_t length = (size_t)(strrchr(path, '/') - path);
    memcpy(directory, path, length);
    directory[length] = '\0';
    for (size_t cursor = 0; (name = hf_elf_needed(elf, &cursor)) != NULL;) {
        if (!hf_needed_find(elf, directory, name, file))
            file[0] = '\0';
        add(needed, name, file);
    }
}

static void complain(const struct needed *needed, const char *path, const char *why)
{
    hf_command_complain(needed->who, "'%s' is not adopted: %s", path, why);
}

/* Looks for the copy of a library, which is selected and has an allocator. */
static void take_copy(struct needed *needed, struct library *library, struct hf_adoption *adoption,
                      char copy[PATH_MAX])
{
    const char *soname = hf_elf_tag_string(&adoption->elf, DT_SONAME);
    const int error = copy[0] == '\0' ? hf_adoption_make(adoption, copy, NULL) : 0;
    const char *obstacle = error == 0 ? hf_preload_obstacle(copy) : NULL;
    if (error != 0) {
        complain(needed, library->entry,
                 adoption->why[0] != '\0' ? adoption->why : strerror(-error));
    } else if (soname == NULL || strcmp(soname, library->name) != 0) {
        complain(needed, library->entry, "its soname is not the name by which it is needed");
    } else if (obstacle != NULL) {
        complain(
            needed, library->entry,
            "the cache's path cannot stand in LD_PRELOAD; set XDG_CACHE_HOME to another directory");
    } else {
        char *entry = strdup(copy);
        needed->failed |= entry == NULL;
        free(library->entry);
        library->entry = entry;
        library->adopted = true;
    }
}

static void look_at(struct needed *needed, size_t index)
{
    struct library *library = &needed->libraries[index];
    struct hf_adoption adoption;
    char copy[PATH_MAX];
    char *path = library->entry;
    if (path[0] != '/' || strcmp(library->name, HF_PRELOAD_LIBRARY) == 0 ||
        hf_adoption_open(&adoption, path, HF_PRELOAD_LIBRARY) != 0)
        return;
    add_needed(needed, &adoption.elf, path);
    if (hf_options_adopt(&needed->options, path) && hf_adoption_look(&adoption, copy) == 1)
        take_copy(needed, library, &adoption, copy);
    hf_adoption_close(&adoption);
}

/* The entries as far as the last copy. */
static char *compose(const struct needed *needed)
{
    size_t end = 0, size = 1;
    for (size_t i = 0; i < needed->count; i++) {
        size += strlen(needed->libraries[i].entry) + 1;
        end = needed->libraries[i].adopted ? i + 1 : end;
    }
    char *text = end > 0 ? malloc(size) : NULL;
    char *at = text;
    for (size_t i = 0; text != NULL && i < end; i++) {
        const char *entry = needed->libraries[i].entry;
        if (hf_preload_obstacle(entry) != NULL)
            entry = needed->libraries[i].name;
        at = mempcpy(at, entry, strlen(entry));
        *at++ = ':';
    }
    if (text != NULL)
        at[-1] = '\0';
    return text;
}

static void select_files(struct hf_options *options, const char *patterns)
{
    options->adopt = strcmp(patterns, "all") == 0 ? HF_ADOPT_ALL : HF_ADOPT_PATTERNS;
    snprintf(options->adopt_patterns, sizeof options->adopt_patterns, "%s", patterns);
}

char *hf_run_adopt_needed(const char *who, const char *patterns, const char *program)
{
    struct needed *needed = calloc(1, sizeof *needed);
    char *path = realpath(program, NULL), *text = NULL;
    struct hf_elf elf;
    if (needed != NULL && path != NULL && hf_elf_open(&elf, path) == 0) {
        needed->who = who;
        select_files(&needed->options, patterns);
        add_needed(needed, &elf, path);
        hf_elf_close(&elf);
        for (size_t i = 0; i < needed->count && !needed->failed; i++)
            look_at(needed, i);
        text = needed->failed ? NULL : compose(needed);
    }
    for (size_t i = 0; needed != NULL && i < needed->count; i++) {
        free(needed->libraries[i].name);
        free(needed->libraries[i].entry);
    }
    free(needed);
    free(path);
    return text;
}
