/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing. Runs on any thread that loads an object.
 *
 * Constraint: dlopen() identifies its caller by the return address and searches for a name without
 * a slash on the caller's RPATH (including an inherited one) or RUNPATH. A stand-in is a different
 * caller. The caller's directories are therefore searched here, in the loader's order
 * (search_path.h), and the parts that do not depend on the caller (the cache and the default
 * directories) are left to dlopen().
 */
#include "loader/dlopen/dlopen_hooks.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/options.h"
#include "alloc/heap/internal.h"
#include "alloc/owner/deep_objects.h"
#include "alloc/trace/fail.h"
#include "loader/dlopen/search_path.h"
#include "loader/dlopen/teach_name.h"
#include "loader/foreign/adopted_note.h"
#include "loader/interpose/definers.h"
#include "loader/interpose/loader_lock.h"
#include "loader/interpose/route.h"
#include "loader/interpose/slot_policy.h"
#include "loader/interpose/stubs.h"
#include "loader/satellites/adopt_api.h"

#include <homefree/adopt.h>

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>

/* dlopen() takes the program for its caller if no object contains the address. */
static const struct link_map *object_of(const void *caller)
{
    const struct link_map *map = hf_dynlink_find(caller);
    return map != NULL ? map : hf_dynlink_first();
}

/* Returns whether the object that dlopen() finds loaded under a bare name is also what the caller
 * would get: it has that soname, or was opened or linked under that name. An object with another
 * soname was reached by a link in a directory that comes after the caller's. */
static bool is_named(void *handle, const char *file, bool without_soname)
{
    struct link_map *map;
    struct hf_object object;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || !hf_dynlink_open(map, &object))
        return false;
    return object.soname != NULL ? strcmp(object.soname, file) == 0 : without_soname;
}

/* ---- adopted copies ---- */

/* Opens a file, from its loaded copy if there is one. With HOMEFREE_CONF=adopt: also from one that
 * is made now. */
static void *open_path(hf_dlopen_function *original, const char *path, int mode)
{
    if ((hf_options.adopt == 0 && !hf_adopted_some()) || (mode & RTLD_BINDING_MASK) == 0)
        return original(path, mode);
    char *copy = hf_malloc(PATH_MAX);
    if (copy == NULL)
        return original(path, mode);
    const struct hf_watch_call *const before = hf_own_begin();
    const bool loaded = hf_adopted_copy_of(path, copy);
    int result = loaded;
    bool selected = false;
    /* Making a copy loads what it needs, which is not for a caller that only asks. */
    if (!loaded && hf_options.adopt != 0 && (mode & RTLD_NOLOAD) == 0)
        result = hf_adopt_selected(path, copy, &selected);
    hf_own_end(before);
    void *handle = result == 1 ? original(copy, mode) : NULL;
    /* The copy may be gone, or lie where no code can be loaded from. */
    if (handle == NULL && !loaded) {
        handle = original(path, mode);
        result = result == 1 ? -ENOEXEC : result;
    }
    hf_free(copy);
    /* Not for an object that was there before: others may have adopted it, or not wanted to. */
    if (handle != NULL && result >= 0 && selected && (mode & RTLD_NOLOAD) == 0)
        (void)hf_adopt(handle);
    return handle;
}

/* ---- names that the caller decides about ---- */

static void *open_found(hf_dlopen_function *original, const char *file, const char *path, int mode)
{
    /* A loaded object is found by its name, before any directory is searched. */
    void *const loaded = original(file, RTLD_LAZY | RTLD_NOLOAD);
    const bool right = loaded != NULL && is_named(loaded, file, true);
    if (loaded != NULL && !right)
        dlclose(loaded);
    void *handle = right ? original(file, mode) : open_path(original, path, mode);
    /* After a failure the caller wants dlerror()'s message, which dlclose() would clear. */
    if (handle != NULL && right)
        dlclose(loaded);
    else if (handle != NULL && handle != loaded && !is_named(handle, file, false))
        hf_teach_name(original, file, path);
    return handle;
}

/* Replaces a path whose $ORIGIN the loader cannot expand either: the error is the same, and no file
 * can be created there. */
#define NOWHERE "/proc/self/origin-is-not-known/"

static void *open_for(hf_dlopen_function *original, const char *file, int mode, const void *caller)
{
    const bool bare = file != NULL && strchr(file, '/') == NULL;
    if (file == NULL || file[0] == '\0')
        return original(file, mode);
    if (!bare && strchr(file, '$') == NULL)
        return open_path(original, file, mode);
    /* dlopen() rejects this mode before any search, with a message that names the caller's file. */
    if ((mode & RTLD_BINDING_MASK) == 0)
        return original(file, mode);
    const struct link_map *map = object_of(caller);
    if (map == NULL)
        return original(file, mode);
    bool skipped = false;
    /* dlopen() is not a cancellation point; the calls of the search are. */
    int cancel_state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    const struct hf_watch_call *const before = hf_own_begin();
    char *path = bare ? hf_search_for(map, file, &skipped) : hf_search_expand(map, file);
    hf_own_end(before);
    pthread_setcancelstate(cancel_state, NULL);
    void *handle = NULL;
    if (!bare)
        handle = path != NULL ? open_path(original, path, mode) : original(NOWHERE, mode);
    else if (path == NULL || skipped)
        handle = original(file, mode);
    else
        handle = open_found(original, file, path, mode);
    if (handle == NULL && skipped)
        handle = original(path, mode); /* for its error message */
    hf_free(path);
    return handle;
}

static void *hook_loaded(void *handle)
{
    /* Not after a failure: taking the loader's lock would clear the message that the caller is
     * about to read with dlerror(). Objects loaded nevertheless are routed in the next pass. */
    if (handle != NULL)
        hf_route_new_objects();
    return handle;
}

/* ---- objects with their own scope ---- */

/* The objects that an open brings: the first of them, and what stood last in the list before. Other
 * threads load and unload meanwhile, so the list is read under the loader's lock, and `before` may
 * be gone. */
struct brought {
    const struct link_map *object, *before;
};

/* The last object of the namespace that new objects join. */
static void find_last(void *result)
{
    const struct link_map *map = hf_dynlink_first();
    while (map != NULL && map->l_next != NULL)
        map = map->l_next;
    ((struct brought *)result)->before = map;
}

/* Notes the object and the dependencies that came with it, which have its scope too. */
static void note_deep(void *context)
{
    const struct brought *brought = context;
    const struct link_map *map = hf_dynlink_first();
    hf_deep_note(brought->object);
    while (map != NULL && map != brought->before)
        map = map->l_next;
    while (map != NULL && (map = map->l_next) != NULL)
        hf_deep_note(map);
}

static void *hook_dlopen(hf_dlopen_function *original, const char *file, int mode,
                         const void *caller)
{
    bool brings = false;
    struct brought brought = {NULL, NULL};
    if ((mode & RTLD_DEEPBIND) != 0 && (mode & RTLD_NOLOAD) == 0 && file != NULL) {
        void *loaded = open_for(original, file, RTLD_LAZY | RTLD_NOLOAD, caller);
        brings = loaded == NULL;
        if (loaded != NULL)
            dlclose(loaded);
    }
    /* Before the object's constructors run. */
    if (brings) {
        hf_definer_note_deep();
        (void)hf_loader_lock_run(find_last, &brought);
    }
    void *handle = open_for(original, file, mode, caller);
    if (brings && handle != NULL) {
        brought.object = handle;
        (void)hf_loader_lock_run(note_deep, &brought);
    }
    return hook_loaded(handle);
}

static bool hook_wants(void *handle, const char *name)
{
    if (handle == RTLD_NEXT || name == NULL)
        return false;
    int function = hf_routed_by_name(name);
    return function >= 0 && !hf_routed_is_loader((enum hf_routed)function) &&
           function != HF_ROUTED_madvise;
}

static void *hook_scope(void *handle, const void *caller)
{
    return handle == RTLD_DEFAULT ? (void *)(uintptr_t)hf_dynlink_find(caller) : NULL;
}

/* An object's own slot of a routed function. */
struct own_slot {
    enum hf_routed function;
    void *stub;
};

static void see_own_slot(const struct hf_slot *slot, void *context)
{
    struct own_slot *own = context;
    void *value = __atomic_load_n(slot->address, __ATOMIC_ACQUIRE);
    if (slot->function == (int)own->function && hf_stub_is(own->function, value))
        own->stub = value;
}

static void *hook_own(void *handle, const char *name, const void *caller, void **local)
{
    struct hf_object object;
    *local = NULL;
    if (handle != RTLD_DEFAULT)
        return NULL;
    const struct link_map *map = hf_dynlink_find(caller);
    if (map == NULL || !hf_dynlink_open(map, &object))
        return NULL;
    struct own_slot own = {(enum hf_routed)hf_routed_by_name(name), NULL};
    hf_slots_visit(&object, &hf_routed_names, false, see_own_slot, &own);
    if (own.stub == NULL && hf_deep_has(map))
        *local = (void *)(uintptr_t)map;
    return own.stub;
}

/* A function that a program without position-independent code takes the address of: for all of the
 * process, its PLT entry there stands for the function. */
struct plt_entry {
    const struct link_map *program;
    const char *name;
    void *function;
};

static void find_behind(void *context)
{
    struct plt_entry *entry = context;
    const struct hf_scope scope = {.first = entry->program};
    void *function = hf_scope_definition(&scope, entry->name);
    entry->function = function != NULL ? function : entry->function;
}

static void *behind_plt(const struct link_map *owner, const char *name, void *found)
{
    struct plt_entry entry = {owner, name, found};
    struct hf_object object;
    if (owner != NULL && owner->l_prev == NULL && hf_dynlink_open(owner, &object) &&
        hf_object_plt(&object, name) == found)
        (void)hf_loader_lock_run(find_behind, &entry);
    return entry.function;
}

static void *hook_symbol(const char *name, void *found)
{
    int function = hf_routed_by_name(name);
    if (found == NULL || function < 0)
        return found;
    if (hf_stub_is((enum hf_routed)function, found)) {
        hf_definer_note((enum hf_routed)function,
                        hf_stub_original((enum hf_routed)function, found));
        return found;
    }
    const struct link_map *owner = hf_dynlink_find(found);
    found = behind_plt(owner, name, found);
    if (hf_stub_is((enum hf_routed)function, found))
        return found;
    owner = hf_dynlink_find(found);
    /* Hidden functions of an object built with the shim stay private, and libhomefree's need no
     * stub. */
    if (owner == NULL || owner == hf_dynlink_find(&hf_region) ||
        !hf_function_is_known((enum hf_routed)function, found) ||
        hf_operator_takes_all((enum hf_routed)function, found))
        return found;
    hf_definer_note((enum hf_routed)function, found);
    void *stub = hf_stub_for((enum hf_routed)function, found);
    return stub != NULL ? stub : found;
}

const struct hf_stub_hooks hf_dlopen_hooks = {
    .open = hook_dlopen,
    .loaded = hook_loaded,
    .wants = hook_wants,
    .scope = hook_scope,
    .own = hook_own,
    .symbol = hook_symbol,
};
