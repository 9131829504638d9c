/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The exported functions of homefree/adopt.h and homefree/private.h that make copies, which open
 * the satellite that does (satellites/adopt/). What is loaded already is known without it.
 *
 * Owns the satellite's place, which is sealed.
 */
#include "loader/satellites/adopt_api.h"

#include "alloc/base/satellite.h"
#include "alloc/heap/internal.h"
#include "loader/adopt/guard_question.h"
#include "loader/elf/origin.h"
#include "loader/foreign/adopted_note.h"
#include "loader/foreign/finding.h"
#include "loader/interpose/definers.h"
#include "loader/interpose/loader_lock.h"
#include "loader/interpose/route.h"
#include "loader/satellites/adopt_tables.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static const struct hf_adopt_core core_functions = {
    .options = &hf_options,
    .adopted_elsewhere = hf_adopted_elsewhere,
#define HF_CORE_GIVES(result, name, parameters, arguments) .name = name,
#define HF_CORE_DOES(name, parameters, arguments)          .name = name,
#include "loader/satellites/adopt_tables.def"
};
static HF_SEALED_UNION(struct hf_satellite, satellite) place HF_SEALED = {
    .satellite = {.name = "adopt", .core = &core_functions}};

/* ---- copies that are loaded ---- */

struct sought {
    const char *path; /* absolute */
    struct stat status;
    bool exists;
    char *copy;
};

static void find_copy(void *context)
{
    struct sought *sought = context;
    const struct link_map *map = hf_dynlink_first();
    for (; map != NULL; map = map->l_next) {
        const struct hf_adopted_note *note = hf_adopted_loaded(map);
        struct stat status;
        if (note == NULL ||
            (strcmp(note->original, sought->path) != 0 &&
             (!sought->exists || stat(note->original, &status) != 0 ||
              status.st_dev != sought->status.st_dev || status.st_ino != sought->status.st_ino)))
            continue;
        const size_t size = strlen(map->l_name) + 1;
        if (size <= PATH_MAX)
            memcpy(sought->copy, map->l_name, size);
        return;
    }
}

bool hf_adopted_copy_of(const char *file, char copy[PATH_MAX])
{
    char path[PATH_MAX];
    struct sought sought = {.path = path, .copy = copy};
    copy[0] = '\0';
    if (!hf_adopted_some() || hf_origin_absolute(file, path) != 0)
        return false;
    sought.exists = stat(file, &sought.status) == 0;
    return hf_loader_lock_run(find_copy, &sought) == 0 && copy[0] != '\0';
}

const char *hf_copied_from(const struct link_map *map)
{
    const struct hf_adopt_functions *open = hf_satellite_functions(&place.satellite);
    return open != NULL ? open->copy_directory(map) : NULL;
}

/* ---- copies that are made ---- */

static int adopt_file(const char *path, char *out, size_t size, bool selected)
{
    if (out == NULL || size == 0)
        return -EINVAL;
    const struct hf_adopt_functions *open =
        hf_satellite_open(&place.satellite, selected ? NULL : out, size);
    return open != NULL ? open->adopt_file(path, out, size, selected) : -ENOTSUP;
}

int hf_adopt_file(const char *path, char *out, size_t size)
{
    return adopt_file(path, out, size, false);
}

int hf_adopt_selected(const char *path, char *out, bool *selected)
{
    char original[PATH_MAX];
    *selected = hf_origin_absolute(path, original) == 0 && hf_options_adopt(&hf_options, original);
    return adopt_file(path, out, PATH_MAX, true);
}

int hf_private_copy(const char *path, char *out, size_t size)
{
    const struct hf_adopt_functions *open = hf_satellite_open(&place.satellite, NULL, 0);
    return open != NULL ? open->private_copy(path, out, size) : -ENOTSUP;
}

int hf_private_remove(const char *path)
{
    const struct hf_adopt_functions *open = hf_satellite_functions(&place.satellite);
    if (path == NULL)
        return -EINVAL;
    return open != NULL ? open->private_remove(path) : -ENOENT;
}

int hf_private_lend(const char *path, void *handle, int64_t interpreter)
{
    const struct hf_adopt_functions *open = hf_satellite_functions(&place.satellite);
    if (path == NULL)
        return -EINVAL;
    return open != NULL ? open->private_lend(path, handle, interpreter) : -ENOTSUP;
}

void *hf_private_reuse(const char *path, int64_t interpreter)
{
    const struct hf_adopt_functions *open = hf_satellite_functions(&place.satellite);
    return open != NULL && path != NULL ? open->private_reuse(path, interpreter) : NULL;
}

bool hf_lent_copies_ended(int64_t interpreter, hf_lent_leaver *tell, void *context)
{
    const struct hf_adopt_functions *open = hf_satellite_functions(&place.satellite);
    return open != NULL && open->lent_ended(interpreter, tell, context);
}

int hf_lent_copies_common(int64_t interpreter, void *handle)
{
    const struct hf_adopt_functions *open = hf_satellite_open(&place.satellite, NULL, 0);
    return open != NULL ? open->lent_common(interpreter, handle) : -ENOTSUP;
}

void hf_lent_copies_entered(int64_t interpreter)
{
    const struct hf_adopt_functions *open = hf_satellite_functions(&place.satellite);
    if (open != NULL)
        open->lent_entered(interpreter);
}
