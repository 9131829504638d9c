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
    bool begun;      /* its constructors have run */
    bool is_library; /* modules use it that were taken */
};

/* An object that outlives the interpreter: one for all interpreters, or a copy that cannot be made
 * new. */
struct lasting {
    struct lasting *next;
    const struct link_map *map;
    char *path;
    const char *why; /* a copy */
    bool is_library;
};

struct set {
    struct set *next;
    int64_t interpreter; /* 0: it has ended, and the set is as new */
    struct lent *first, *last;
    struct lasting *lasting;
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
    *lent = (struct lent){.path = hf_strdup(path), .handle = handle, .taken = true, .begun = true};
    if (lent->path != NULL)
        return lent;
    hf_free(lent);
    return NULL;
}

/* Adds one of the two to the interpreter's set. */
static int add(int64_t interpreter, struct lent *lent, struct lasting *lasting)
{
    struct set *new = hf_malloc(sizeof *new);
    pthread_mutex_lock(&lock);
    struct set *set = set_for(interpreter, new);
    if (set != NULL && lent != NULL) {
        lent->before = set->last;
        *(set->last != NULL ? &set->last->next : &set->first) = lent;
        set->last = lent;
    }
    if (set != NULL && lasting != NULL) {
        lasting->next = set->lasting;
        set->lasting = lasting;
        set->is_lost = set->is_lost || lasting->is_library;
    }
    pthread_mutex_unlock(&lock);
    if (set != new)
        hf_free(new);
    return set != NULL ? 0 : -ENOMEM;
}

static int add_lasting(int64_t interpreter, const struct lasting *model, const char *path)
{
    struct lasting *lasting = hf_malloc(sizeof *lasting);
    char *kept = hf_strdup(path);
    int error = -ENOMEM;
    if (lasting != NULL && kept != NULL) {
        *lasting = *model;
        lasting->path = kept;
        error = add(interpreter, NULL, lasting);
    }
    if (error != 0) {
        hf_free(lasting);
        hf_free(kept);
    }
    return error;
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
    if (error == 0)
        error = hf_pristine_watch(lent->pristine, map);
    if (error == 0)
        error = add(interpreter, lent, NULL);
    if (error == 0)
        return 0;
    forget(lent);
    const struct lasting lasting = {.map = map,
                                    .why = error == -EBUSY ? "its constructors make keys of threads"
                                                           : "its file is of an unusual kind",
                                    .is_library = object.soname != NULL};
    const int noted = add_lasting(interpreter, &lasting, original);
    return noted != 0 ? noted : error;
}

/* As with dlopen(), one thread runs constructors at a time, which may load others. */
static pthread_mutex_t beginning = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

/* Runs what dlopen() would run, of libraries first: on the thread that imports, because
 * constructors may make objects of the interpreter's. */
static void begin(struct set *set, const struct lent *found)
{
    pthread_mutex_lock(&beginning);
    for (struct lent *at = set->first; at != NULL; at = at->next)
        if ((at->is_library || at == found) && !at->begun) {
            at->begun = true;
            hf_pristine_restore_thread(at->pristine, at->handle);
            hf_pristine_begin(at->pristine);
        }
    pthread_mutex_unlock(&beginning);
}

void *hf_lent_reuse(const char *path, int64_t interpreter)
{
    char original[PATH_MAX];
    struct stat status;
    struct lent *found = NULL;
    if (interpreter <= 0 || hf_origin_absolute(path, original) != 0 || stat(original, &status) != 0)
        return NULL;
    pthread_mutex_lock(&lock);
    struct set *set = set_for(interpreter, NULL);
    for (struct lent *at = set != NULL ? set->first : NULL; at != NULL && found == NULL;
         at = at->next)
        if (!at->taken && strcmp(at->path, original) == 0 &&
            hf_copy_is_same(&at->status, &status)) {
            at->taken = true;
            found = at;
        }
    pthread_mutex_unlock(&lock);
    if (found == NULL)
        return NULL;
    begin(set, found);
    return found->handle;
}

/* Takes out of the set what cannot be made new. Returns whether there was any. */
static bool leave_behind(struct set *set, hf_lent_leaver *tell, void *context)
{
    bool left = false;
    for (struct lent *at = set->first, *next; at != NULL; at = next) {
        next = at->next;
        const char *why = at->begun ? hf_pristine_left(at->pristine) : NULL;
        if (why == NULL)
            continue;
        tell(context, at->path, why);
        left = true;
        set->is_lost = set->is_lost || at->is_library;
        *(at->before != NULL ? &at->before->next : &set->first) = next;
        *(next != NULL ? &next->before : &set->last) = at->before;
        forget(at);
    }
    for (struct lasting *at = set->lasting, *next; at != NULL; at = next) {
        next = at->next;
        const char *why = at->why != NULL ? at->why : hf_pristine_keeps(at->map);
        if (why != NULL)
            tell(context, at->path, why);
        left = left || why != NULL;
        hf_free(at->path);
        hf_free(at);
    }
    set->lasting = NULL;
    return left;
}

static void make_new(struct set *set)
{
    for (struct lent *at = set->last; at != NULL; at = at->before)
        if (at->begun)
            hf_pristine_finish(at->pristine);
    for (struct lent *at = set->first; at != NULL; at = at->next)
        if (at->begun)
            hf_pristine_restore(at->pristine);
    for (struct lent *at = set->first; at != NULL; at = at->next)
        at->taken = at->begun = false;
}

bool hf_lent_ended(int64_t interpreter, hf_lent_leaver *tell, void *context)
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
        return false;
    const bool left = leave_behind(set, tell, context);
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
    return left;
}

int hf_lent_common(int64_t interpreter, void *handle)
{
    struct link_map *map;
    if (interpreter <= 0 || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0)
        return -EINVAL;
    return add_lasting(interpreter, &(struct lasting){.map = map}, hf_dynlink_name(map));
}

void hf_lent_entered(int64_t interpreter)
{
    pthread_mutex_lock(&lock);
    /* Not later, when other threads may be in it. */
    struct set *set = interpreter > 0 ? set_for(interpreter, NULL) : NULL;
    const struct lent *at = set != NULL && set->is_used ? set->first : NULL;
    for (; at != NULL; at = at->next)
        hf_pristine_restore_thread(at->pristine, at->handle);
    pthread_mutex_unlock(&lock);
}
