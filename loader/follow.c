/*
 * Owns nothing. Runs on whatever thread loads an object, without locks of its own.
 *
 * Constraint: dlopen() takes its caller from the return address, and a name without a slash is
 * searched for on the caller's RPATH or RUNPATH. A stand-in is another caller. So the caller's own
 * directories are searched here first, in the loader's order, and only what the caller does not
 * matter for (LD_LIBRARY_PATH aside, the cache and the default directories) is left to dlopen.
 */
#include "follow.h"

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

/* Runs in the caller's place: the first of its directories that has the file. False if none. */
static bool find_on_callers_path(const struct link_map *caller, const char *file, char *path,
                                 size_t path_size)
{
    Dl_serinfo size;
    void *handle = (void *)(uintptr_t)caller;
    if (dlinfo(handle, RTLD_DI_SERINFOSIZE, &size) != 0)
        return false;
    Dl_serinfo *search = hf_malloc(size.dls_size);
    if (search == NULL)
        return false;
    *search = size;
    bool found = false;
    if (dlinfo(handle, RTLD_DI_SERINFO, search) == 0) {
        for (unsigned i = 0; i < search->dls_cnt && !found; i++) {
            const Dl_serpath *entry = &search->dls_serpath[i];
            /* The cache is searched between these and the default directories. */
            if ((entry->dls_flags & LA_SER_DEFAULT) != 0)
                break;
            int length = snprintf(path, path_size, "%s/%s", entry->dls_name, file);
            found = length > 0 && (size_t)length < path_size && access(path, F_OK) == 0;
        }
    }
    hf_free(search);
    return found;
}

static void *open_for(hf_dlopen_function *original, const char *file, int mode, const void *caller)
{
    char path[PATH_MAX];
    struct hf_object object;
    if (file == NULL || strchr(file, '/') != NULL || file[0] == '\0')
        return original(file, mode);
    const struct link_map *map = hf_dynlink_find(caller);
    if (map == NULL || !hf_dynlink_open(map, &object) || !object.has_runpath)
        return original(file, mode);
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
    return function >= 0 && !hf_routed_is_loader((enum hf_routed)function);
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
