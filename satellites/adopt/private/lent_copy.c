/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the sets of lent copies, under `lock`. A set is all copies of one interpreter, in the order
 * in which they were loaded: libraries before the modules that need them, by names that only this
 * set has. So an interpreter takes over the whole set of one that has ended. While a set is made
 * new it is in no list, and code of the copies runs: no lock is held.
 */
#include "satellites/adopt/private/lent_copy.h"

#include "alloc/base/fork_lock.h"
#include "loader/elf/origin.h"
#include "loader/interpose/route.h"
#include "satellites/adopt/private/copy_bytes.h"
#include "satellites/adopt/private/pristine.h"

#include <dlfcn.h>
#include <errno.h>
#include <homefree/alloc.h>
#include <homefree/libc.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

struct lent {
    struct lent *next, *before;
    char *path;         /* the original's */
    struct stat status; /* of the original, when it was copied */
    void *handle;
    struct hf_pristine *pristine;
    bool taken;      /* by the set's interpreter */
    bool is_library; /* modules use it that were taken */
};

struct set {
    struct set *next;
    int64_t interpreter; /* 0: it has ended, and the set is as new */
    struct lent *first, *last;
    bool is_used; /* again: by another interpreter than the first */
    bool is_lost; /* a library is in use that cannot be made new: neither are those that need it */
};

static pthread_mutex_t HF_FORK_LOCK lock = PTHREAD_MUTEX_INITIALIZER;
static struct set *sets;

/* The set of an interpreter, or one that nobody has; NULL if there is none. Under the lock, like
 * the next. */
static struct set *find(int64_t interpreter)
{
    struct set *set = sets;
    while (set != NULL && set->interpreter != interpreter)
        set = set->next;
    return set;
}

/* The same; one that nobody has is taken over, or the new one. */
static struct set *set_for(int64_t interpreter, struct set *new)
{
    struct set *set = find(interpreter);
    if (set == NULL && (set = find(0)) != NULL)
        set->is_used = set->first != NULL;
    if (set == NULL && new != NULL) {
        *new = (struct set){.next = sets};
        set = sets = new;
    }
    if (set != NULL)
        set->interpreter = interpreter;
    return set;
}

static void forget(struct lent *lent)
{
    if (lent == NULL)
        return;
    if (lent->pristine != NULL)
        hf_pristine_forget(lent->pristine);
    hf_free(lent->path);
    hf_free(lent);
}

static struct lent *new_lent(const char *path, void *handle)
{
    struct lent *lent = hf_malloc(sizeof *lent);
    if (lent == NULL)
        return NULL;
    *lent = (struct lent){.path = hf_strdup(path), .handle = handle, .taken = true};
    if (lent->path != NULL)
        return lent;
    hf_free(lent);
    return NULL;
}

int hf_lent_add(const char *path, void *handle, int64_t interpreter)
{
    char original[PATH_MAX];
    struct link_map *map;
    struct hf_object object;
    if (handle == NULL || interpreter <= 0 || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 ||
        !hf_dynlink_open(map, &object))
        return -EINVAL;
    int error = hf_origin_absolute(path, original);
    if (error != 0)
        return error;
    hf_route_new_objects();
    struct lent *lent = new_lent(original, handle);
    error = lent == NULL ? -ENOMEM : stat(original, &lent->status) != 0 ? -errno : 0;
    if (lent != NULL)
        lent->is_library = object.soname != NULL;
    if (error == 0)
        error = hf_pristine_note(&lent->pristine, map);
    struct set *new = hf_malloc(sizeof *new);
    pthread_mutex_lock(&lock);
    struct set *set = set_for(interpreter, new);
    if (set == NULL)
        error = -ENOMEM;
    else if (error != 0)
        set->is_lost = set->is_lost || object.soname != NULL;
    else {
        lent->before = set->last;
        *(set->last != NULL ? &set->last->next : &set->first) = lent;
        set->last = lent;
    }
    pthread_mutex_unlock(&lock);
    if (set != new)
        hf_free(new);
    if (error != 0)
        forget(lent);
    return error;
}

void *hf_lent_reuse(const char *path, int64_t interpreter)
{
    char original[PATH_MAX];
    struct stat status;
    void *handle = NULL;
    if (interpreter <= 0 || hf_origin_absolute(path, original) != 0 || stat(original, &status) != 0)
        return NULL;
    pthread_mutex_lock(&lock);
    const struct set *set = set_for(interpreter, NULL);
    for (struct lent *at = set != NULL ? set->first : NULL; at != NULL && handle == NULL;
         at = at->next)
        if (!at->taken && strcmp(at->path, original) == 0 &&
            hf_copy_is_same(&at->status, &status)) {
            at->taken = true;
            handle = at->handle;
        }
    pthread_mutex_unlock(&lock);
    return handle;
}

static bool was_used(const struct lent *lent)
{
    return lent->taken || lent->is_library;
}

static void make_new(struct set *set)
{
    for (struct lent *at = set->last; at != NULL; at = at->before)
        if (was_used(at))
            hf_pristine_finish(at->pristine);
    for (struct lent *at = set->first; at != NULL; at = at->next)
        if (was_used(at))
            hf_pristine_restore(at->pristine);
    for (struct lent *at = set->first; at != NULL; at = at->next)
        if (was_used(at))
            hf_pristine_begin(at->pristine);
    for (struct lent *at = set->first; at != NULL; at = at->next)
        at->taken = false;
}

void hf_lent_ended(int64_t interpreter)
{
    struct lent *lost = NULL;
    pthread_mutex_lock(&lock);
    struct set **link = &sets;
    while (*link != NULL && (*link)->interpreter != interpreter)
        link = &(*link)->next;
    struct set *set = *link;
    if (set != NULL)
        *link = set->next;
    pthread_mutex_unlock(&lock);
    if (set == NULL)
        return;
    if (set->is_lost) {
        lost = set->first;
        *set = (struct set){0};
    } else
        make_new(set);
    while (lost != NULL) {
        struct lent *next = lost->next;
        forget(lost);
        lost = next;
    }
    pthread_mutex_lock(&lock);
    set->interpreter = 0;
    set->next = sets;
    sets = set;
    pthread_mutex_unlock(&lock);
}

void hf_lent_entered(int64_t interpreter)
{
    pthread_mutex_lock(&lock);
    struct set *set = interpreter > 0 ? find(interpreter) : NULL;
    const struct lent *at = set != NULL && set->is_used ? set->first : NULL;
    for (; at != NULL; at = at->next)
        hf_pristine_restore_thread(at->pristine, at->handle);
    pthread_mutex_unlock(&lock);
}
