/*
 * Owns nothing. Runs on whatever thread loads an object, without locks of its own.
 *
 * Constraint: dlopen() takes its caller from the return address, and a name without a slash is
 * searched for on the caller's RPATH (also one that it inherits) or RUNPATH. A stand-in is another
 * caller. So the caller's directories are searched here first, in the loader's order, and what the
 * caller does not matter for (LD_LIBRARY_PATH, the cache and the default directories) is left to
 * dlopen.
 */
#include "follow.h"

#include "copy.h"
#include "dynlink.h"
#include "internal.h"
#include "route.h"
#include "stubs.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The directories that dlopen() searches for an object's sake; hf_free() it. NULL if there is no
 * telling. glibc does not say which of them are the object's own (dls_flags is always 0). */
static Dl_serinfo *search_list(const struct link_map *map)
{
    Dl_serinfo size;
    void *handle = (void *)(uintptr_t)map;
    if (dlinfo(handle, RTLD_DI_SERINFOSIZE, &size) != 0)
        return NULL;
    Dl_serinfo *list = hf_malloc(size.dls_size);
    if (list == NULL)
        return NULL;
    *list = size;
    if (dlinfo(handle, RTLD_DI_SERINFO, list) != 0) {
        hf_free(list);
        return NULL;
    }
    return list;
}

static bool lists(const Dl_serinfo *list, const char *directory)
{
    for (unsigned i = 0; i < list->dls_cnt; i++)
        if (strcmp(list->dls_serpath[i].dls_name, directory) == 0)
            return true;
    return false;
}

/* A file's path. A private copy that lies elsewhere is searched for as if it lay beside its
 * original: the loader has put the copy's folder where $ORIGIN was. */
static int write_path(const struct link_map *caller, const char *directory, const char *file,
                      char *path, size_t path_size)
{
    const char *folder = hf_copy_folder(caller);
    char origin[PATH_MAX];
    if (folder != NULL && dlinfo((void *)(uintptr_t)caller, RTLD_DI_ORIGIN, origin) == 0 &&
        strncmp(directory, origin, strlen(origin)) == 0)
        return snprintf(path, path_size, "%s%s/%s", folder, directory + strlen(origin), file);
    return snprintf(path, path_size, "%s/%s", directory, file);
}

/*
 * Runs in the caller's place: the first of its directories that has the file, if that is one which
 * is searched for the caller and not for us. All others (LD_LIBRARY_PATH, the default directories,
 * and the cache, which comes between the two) are left to dlopen(). False if none.
 */
static bool find_on_callers_path(const struct link_map *caller, const char *file, char *path,
                                 size_t path_size)
{
    Dl_serinfo *search = search_list(caller);
    Dl_serinfo *ours = search != NULL ? search_list(hf_dynlink_find(&hf_region)) : NULL;
    bool found = false;
    for (unsigned i = 0; ours != NULL && i < search->dls_cnt && !found; i++) {
        const char *directory = search->dls_serpath[i].dls_name;
        int length = write_path(caller, directory, file, path, path_size);
        found = length > 0 && (size_t)length < path_size && access(path, F_OK) == 0;
        if (found && lists(ours, directory)) {
            found = false;
            break;
        }
    }
    hf_free(ours);
    hf_free(search);
    return found;
}

/* $ORIGIN is the caller's too. What is left of other names ($LIB, $PLATFORM) is the same for all.
 */
static bool expand_origin(const struct link_map *caller, const char *file, char *path,
                          size_t path_size)
{
    static const char *const words[] = {"$ORIGIN/", "${ORIGIN}/"};
    char origin[PATH_MAX];
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t length = strlen(words[i]);
        if (strncmp(file, words[i], length) != 0 ||
            dlinfo((void *)(uintptr_t)caller, RTLD_DI_ORIGIN, origin) != 0)
            continue;
        const char *folder = hf_copy_folder(caller);
        int written =
            snprintf(path, path_size, "%s/%s", folder != NULL ? folder : origin, file + length);
        return written > 0 && (size_t)written < path_size;
    }
    return false;
}

static void *open_for(hf_dlopen_function *original, const char *file, int mode, const void *caller)
{
    char path[PATH_MAX];
    bool bare = file != NULL && strchr(file, '/') == NULL;
    if (file == NULL || file[0] == '\0' || (!bare && file[0] != '$'))
        return original(file, mode);
    const struct link_map *map = hf_dynlink_find(caller);
    if (map == NULL)
        return original(file, mode);
    if (!bare)
        return original(expand_origin(map, file, path, sizeof path) ? path : file, mode);
    /* What is loaded already is found by its soname, before any directory. */
    void *loaded = original(file, RTLD_LAZY | RTLD_NOLOAD);
    if (loaded != NULL) {
        void *handle = original(file, mode);
        dlclose(loaded);
        return handle;
    }
    if (!find_on_callers_path(map, file, path, sizeof path))
        return original(file, mode);
    return original(path, mode);
}

void *hf_follow_loaded(void *handle)
{
    /* Not after a failure: taking the loader's lock would clear the message that the caller is
     * going to ask dlerror() for. Whatever came nevertheless is routed the next time. */
    if (handle != NULL)
        hf_route_new_objects();
    return handle;
}

void *hf_follow_dlopen(hf_dlopen_function *original, const char *file, int mode, const void *caller)
{
    return hf_follow_loaded(open_for(original, file, mode, caller));
}

bool hf_follow_wants(void *handle, const char *name)
{
    if (handle == RTLD_NEXT || name == NULL)
        return false;
    int function = hf_routed_by_name(name);
    return function >= 0 && !hf_routed_is_loader((enum hf_routed)function) &&
           function != HF_ROUTED_madvise;
}

void *hf_follow_scope(void *handle, const void *caller)
{
    return handle == RTLD_DEFAULT ? (void *)(uintptr_t)hf_dynlink_find(caller) : NULL;
}

void *hf_follow_symbol(const char *name, void *found)
{
    int function = hf_routed_by_name(name);
    if (found == NULL || function < 0 || hf_stub_is((enum hf_routed)function, found))
        return found;
    const struct link_map *owner = hf_dynlink_find(found);
    /* An object that was built with the shim keeps its functions to itself; libhomefree's are ours.
     */
    if (owner == NULL || owner == hf_dynlink_find(&hf_region))
        return found;
    void *stub = hf_stub_for((enum hf_routed)function, found);
    return stub != NULL ? stub : found;
}
