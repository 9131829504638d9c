/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hf_adopt_file() (homefree/adopt.h). Owns nothing but the handles of libraries that it loaded,
 * which are never closed because their users never say so. Takes no lock of its own.
 */
#include "alloc/base/dynlink.h"
#include "alloc/base/options.h"
#include "alloc/build_stamp.h"
#include "alloc/heap/front_end.h"
#include "loader/elf/origin.h"
#include "loader/foreign/adopted_note.h"
#include "loader/interpose/definers.h"
#include "loader/interpose/loader_lock.h"
#include "loader/interpose/route.h"
#include "loader/satellites/adopt_api.h"
#include "satellites/adopt/adopt_core.h"
#include "satellites/adopt/adopted_copy.h"
#include "satellites/adopt/hidden/plan.h"
#include "satellites/adopt/live_guards.h"
#include "satellites/adopt/private/lent_copy.h"
#include "satellites/adopt/private/needed.h"
#include "satellites/adopt/private/private_copy.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LIBRARIES_MAX = 256 };

/* The state of one call. */
struct adopting {
    char why[512];
    char *seen[LIBRARIES_MAX]; /* absolute paths of the libraries that were looked at */
    size_t seen_count;
    bool selected; /* only files that HOMEFREE_CONF selects */
};

/* libhomefree's name, by which the copy asks for it. */
static const char *own_name(void)
{
    struct hf_object object;
    const struct link_map *map = hf_dynlink_find(hf_core());
    return map != NULL && hf_dynlink_open(map, &object) ? object.soname : NULL;
}

/* ---- libraries ------------------------------------------------------------------------------ */

static int adopt(struct adopting *adopting, const char *original, char path[PATH_MAX],
                 unsigned depth);

static bool note_seen(struct adopting *adopting, const char *path)
{
    for (size_t i = 0; i < adopting->seen_count; i++)
        if (strcmp(adopting->seen[i], path) == 0)
            return false;
    if (adopting->seen_count == LIBRARIES_MAX)
        return false;
    char *kept = strdup(path);
    if (kept == NULL)
        return false;
    adopting->seen[adopting->seen_count++] = kept;
    return true;
}

static int load_needed(struct adopting *adopting, const char *path, const char *name)
{
    void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (handle == NULL) {
        const char *reason = dlerror();
        return HF_ADOPT_FAIL(adopting->why, -ENOEXEC, "%s", reason != NULL ? reason : path);
    }
    if (dlopen(name, RTLD_LAZY | RTLD_NOLOAD) != NULL)
        return 0;
    dlclose(handle);
    return HF_ADOPT_FAIL(
        adopting->why, -ENOTSUP,
        "%s has no soname, and its copy no room for one; link it with -Wl,-soname,%s", name, name);
}

/* Whether the dynamic linker has an object by that name which is neither this file nor its copy: it
 * takes that one, wherever the file lies. */
static bool is_another(const char *name, const char *file)
{
    struct link_map *map;
    struct stat wanted, status;
    void *handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == NULL || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0)
        return false;
    const struct hf_adopted_note *note = hf_adopted_loaded(map);
    const char *from = note != NULL ? note->original : map->l_name;
    const bool another = stat(from, &status) == 0 && stat(file, &wanted) == 0 &&
                         (status.st_dev != wanted.st_dev || status.st_ino != wanted.st_ino);
    dlclose(handle);
    return another;
}

/* Loads the copies of needed libraries that have an allocator. What needs them finds them by their
 * soname. */
static int adopt_needed(struct adopting *adopting, struct hf_adoption *adoption, unsigned depth)
{
    enum { DEPTH_MAX = 32 };
    char directory[PATH_MAX], file[PATH_MAX], path[PATH_MAX];
    const size_t length = (size_t)(strrchr(adoption->original, '/') - adoption->original);
    memcpy(directory, adoption->original, length);
    directory[length] = '\0';
    int error = 0;
    const char *name;
    for (size_t cursor = 0;
         error >= 0 && (name = hf_elf_needed(&adoption->elf, &cursor)) != NULL;) {
        if (depth == DEPTH_MAX || strcmp(name, adoption->library) == 0 ||
            !hf_needed_find(&adoption->elf, directory, name, file) || !note_seen(adopting, file) ||
            is_another(name, file))
            continue;
        error = adopt(adopting, file, path, depth + 1);
        if (error < 0 && adopting->why[0] == '\0')
            (void)HF_ADOPT_FAIL(adopting->why, error, "%s: %s", name, strerror(-error));
        if (error > 0)
            error = load_needed(adopting, path, name);
    }
    return error < 0 ? error : 0;
}

/* ---- one file ------------------------------------------------------------------------------- */

/* Guards the allocator of a file that the dynamic linker has loaded. Result: 1 if it has not;
 * otherwise as hf_live_guard(). */
static int guard_loaded(struct hf_adoption *adoption)
{
    void *handle = dlopen(adoption->original, RTLD_LAZY | RTLD_NOLOAD);
    struct link_map *map;
    int result = 1;
    if (handle == NULL)
        return result;
    result = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? hf_live_guard(adoption, map) : -EBUSY;
    dlclose(handle);
    return result;
}

static int adopt_opened(struct adopting *adopting, struct hf_adoption *adoption,
                        char path[PATH_MAX], unsigned depth)
{
    const char *original = adoption->original;
    int error = adopt_needed(adopting, adoption, depth);
    if (error != 0)
        return error;
    const bool wanted = !adopting->selected || hf_options_adopt(hf_core()->options, original);
    const int has = wanted ? hf_adoption_look(adoption, path) : 0;
    if (has == 0)
        memcpy(path, original, strlen(original) + 1);
    if (has <= 0)
        return has;
    const int loaded = guard_loaded(adoption);
    if (loaded <= 0) {
        memcpy(path, original, strlen(original) + 1);
        return loaded == 0 ? 2 : loaded;
    }
    if (path[0] == '\0')
        error = hf_adoption_make(adoption, path, hf_copy_place);
    return error != 0 ? error : 1;
}

static int adopt(struct adopting *adopting, const char *original, char path[PATH_MAX],
                 unsigned depth)
{
    struct hf_adoption adoption;
    const char *library = own_name();
    if (library == NULL)
        return -ENOTSUP;
    if (hf_adopted_copy_of(original, path))
        return 1;
    int result = hf_adoption_open(&adoption, original, library);
    if (result == 0) {
        result = adopt_opened(adopting, &adoption, path, depth);
        hf_adoption_close(&adoption);
    }
    if (result < 0 && adoption.why[0] != '\0') {
        const char *name = strrchr(original, '/') + 1;
        (void)HF_ADOPT_FAIL(adopting->why, result, "%.200s%s%.300s", depth != 0 ? name : "",
                            depth != 0 ? ": " : "", adoption.why);
    }
    return result;
}

static int adopt_file(const char *path, char *out, size_t size, bool selected)
{
    char original[PATH_MAX], copy[PATH_MAX];
    hf_heap_start();
    if (out == NULL || size == 0)
        return -EINVAL;
    out[0] = '\0';
    struct adopting adopting = {.why = "", .selected = selected};
    int result = hf_origin_absolute(path, original);
    if (result == 0 && !hf_core()->options->route)
        result = HF_ADOPT_FAIL(adopting.why, -EPERM, "routing is off (HOMEFREE_CONF=route:off)");
    else if (result == 0 && hf_program_serves())
        result = HF_ADOPT_FAIL(adopting.why, -ENOTSUP, "%s", HF_PROGRAM_SERVES);
    else if (result == 0)
        result = adopt(&adopting, original, copy, 0);
    if (result >= 0 && strlen(copy) >= size)
        result = -ENAMETOOLONG;
    const char *text = result >= 0               ? copy
                       : adopting.why[0] != '\0' ? adopting.why
                                                 : strerror(-result);
    snprintf(out, size, "%s", text);
    for (size_t i = 0; i < adopting.seen_count; i++)
        free(adopting.seen[i]);
    hf_route_new_objects();
    return result;
}

/* `selected`: each file, the one at `path` and those that it needs, is adopted only if
 * HOMEFREE_CONF selects it. Like dlopen(), it is no cancellation point, though it reads and writes
 * files. Any thread, but not under the loader's lock. */
static int adopt_uncancelled(const char *path, char *out, size_t size, bool selected)
{
    int cancel_state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    const int result = adopt_file(path, out, size, selected);
    pthread_setcancelstate(cancel_state, NULL);
    return result;
}

/* ---- what the core calls of this satellite ---- */

static const struct hf_adopt_functions here = {
    .adopt_file = adopt_uncancelled,
    .private_copy = hf_private_copy_make,
    .private_remove = hf_private_copy_remove,
    .copy_directory = hf_copy_directory,
    .private_lend = hf_lent_add,
    .private_reuse = hf_lent_reuse,
    .lent_ended = hf_lent_ended,
    .lent_common = hf_lent_common,
    .lent_entered = hf_lent_entered,
};

HF_SATELLITE_WITH(adopt, here, NULL);
