/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the objects of each replica, by a reference in a module `_homefree_replicas` of their
 * interpreter: if that ends first, they are released with its modules.
 *
 * A replica's lock guards which interpreters are making their object. It is not held while they do
 * so: other sessions of such an interpreter wait, detached.
 */
#include "satellites/interpreters/replicas.h"

#include "satellites/interpreters/posts.h"
#include "satellites/interpreters/registry.h"
#include "satellites/interpreters/session_calls.h"
#include "satellites/interpreters/sessions.h"
#include "satellites/interpreters/thread_states.h"
#include "satellites/interpreters/values.h"

#include <errno.h>
#include <homefree/alloc.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODULE    "_homefree_replicas"
#define NAME_SIZE 32
/* (path, package, name) */
#define LOADER "homefree.interpreters._replica:load"

/* What a replica's objects are made from. */
struct source {
    const char *maker;                /* a function; NULL: the only argument is a pickle */
    const struct hf_value *arguments; /* count values */
    size_t count;
};

struct hf_replica {
    struct hf_interpreters *group; /* a reference */
    unsigned generation;
    uint64_t number;        /* of this process */
    struct source source;   /* whose arguments are `arguments` */
    struct hf_value copied; /* HF_VALUE_TUPLE of the arguments; HF_VALUE_NONE: all are made */
    pthread_mutex_t lock;
    pthread_cond_t made; /* or could not be made */
    struct part {
        _Atomic(struct hf_py_object *) object; /* borrowed from the module; NULL: not made */
        bool is_being_made;                    /* guarded by the lock */
    } parts[];
};

/* What is posted to an interpreter when a replica is dropped. */
struct removal {
    const struct hf_cpython_interpreters *py;
    char name[NAME_SIZE];
};

/* The name in the module. Without a GIL the interpreters are one, but each has an object of its
 * own. */
static void name_of(char out[static NAME_SIZE], const struct hf_replica *replica, unsigned index)
{
    snprintf(out, NAME_SIZE, "r%" PRIu64 ".%u", replica->number, index);
}

static struct hf_py_object *names_in(const struct hf_cpython_interpreters *py)
{
    struct hf_py_object *module = py->add_module(MODULE);
    return module != NULL ? py->module_dict(module) : NULL;
}

/* ---- making ---- */

/* A new reference; NULL with an exception set. */
static struct hf_py_object *make(const struct hf_session *session, const struct source *source)
{
    const struct hf_cpython_interpreters *py = session->interpreter->group->py;
    if (source->maker == NULL)
        return hf_value_to_object(py, session->interpreter, source->arguments);
    struct hf_py_object *function = hf_calls_find(session, source->maker);
    struct hf_py_object *object =
        function != NULL ? hf_calls_invoke(session, function, source->arguments, source->count)
                         : NULL;
    if (function != NULL)
        py->cpython->release(function);
    return object;
}

/* Whether the calling session is to make its interpreter's object. Otherwise it is made, if need be
 * after waiting for the session that makes it. */
static bool is_to_make(struct hf_replica *replica, struct part *part)
{
    const struct hf_cpython_interpreters *py = replica->group->py;
    if (atomic_load(&part->object) != NULL)
        return false;
    struct hf_py_thread *thread = hf_detach(py);
    pthread_mutex_lock(&replica->lock);
    while (part->is_being_made)
        (void)hf_wait(&replica->made, &replica->lock, NULL);
    const bool is_mine = atomic_load(&part->object) == NULL;
    part->is_being_made = is_mine;
    pthread_mutex_unlock(&replica->lock);
    hf_reattach(py, thread);
    return is_mine;
}

/* The object of the session's interpreter, in which the calling thread is attached. A borrowed
 * reference; NULL with an exception set. */
static struct hf_py_object *object_in(struct hf_replica *replica, const struct hf_session *session,
                                      const struct source *source)
{
    const struct hf_cpython_interpreters *py = replica->group->py;
    struct part *part = &replica->parts[session->interpreter->index];
    char name[NAME_SIZE];
    if (!is_to_make(replica, part))
        return atomic_load(&part->object);
    struct hf_py_object *object = make(session, source);
    struct hf_py_object *names = object != NULL ? names_in(py) : NULL;
    name_of(name, replica, session->interpreter->index);
    const bool is_made = names != NULL && py->dict_set(names, name, object) == 0;
    pthread_mutex_lock(&replica->lock);
    if (is_made)
        atomic_store(&part->object, object);
    part->is_being_made = false;
    pthread_cond_broadcast(&replica->made);
    pthread_mutex_unlock(&replica->lock);
    if (object != NULL)
        py->cpython->release(object);
    return is_made ? object : NULL;
}

static int make_in(struct hf_replica *replica, int index, const struct source *source,
                   struct hf_value *error_out)
{
    struct hf_session *session;
    int error = hf_sessions_begin(&session, replica->group, index, 0);
    if (error != 0)
        return error;
    error = hf_sessions_attach(session);
    if (error == 0 && object_in(replica, session, source) == NULL) {
        hf_value_from_error(replica->group->py, error_out);
        error = -EPROTO;
    }
    hf_sessions_end(session);
    return error;
}

/* ---- replicas ---- */

static struct hf_replica *new_replica(struct hf_interpreters *group)
{
    static atomic_uint_fast64_t numbers;
    struct hf_replica *replica =
        hf_calloc(1, sizeof *replica + group->count * sizeof *replica->parts);
    if (replica == NULL)
        return NULL;
    hf_group_take(group);
    replica->group = group;
    replica->generation = group->generation;
    pthread_mutex_init(&replica->lock, NULL);
    hf_condition_prepare(&replica->made);
    replica->number = atomic_fetch_add(&numbers, 1);
    return replica;
}

static int finish(struct hf_replica **out, struct hf_replica *replica, int error)
{
    if (error != 0)
        hf_replicas_drop(replica);
    else
        *out = replica;
    return error;
}

int hf_replicas_new(struct hf_replica **out, struct hf_interpreters *group, const char *maker,
                    const struct hf_value *arguments, size_t count, struct hf_value *error_out)
{
    const struct source source = {maker, arguments, count};
    if (error_out != NULL)
        *error_out = (struct hf_value){.kind = HF_VALUE_NONE};
    if (!hf_calls_may(maker, arguments, count))
        return -EINVAL;
    struct hf_replica *replica = new_replica(group);
    if (replica == NULL)
        return -ENOMEM;
    int error = 0;
    for (unsigned i = 0; error == 0 && i < group->count; i++)
        error = make_in(replica, (int)i, &source, error_out);
    return finish(out, replica, error);
}

/* A replica whose objects are made when they are needed; one is made now, so that what is wrong is
 * told at once. */
static int new_later(struct hf_replica **out, struct hf_interpreters *group,
                     const struct source *source, struct hf_value *error_out)
{
    const struct hf_value all = {.kind = HF_VALUE_TUPLE,
                                 .count = source->count,
                                 .as.items = (struct hf_value *)(uintptr_t)source->arguments};
    struct hf_replica *replica = new_replica(group);
    if (replica == NULL)
        return -ENOMEM;
    int error = hf_value_copy(&all, &replica->copied);
    if (error == 0) {
        replica->source = (struct source){source->maker, replica->copied.as.items, source->count};
        error = make_in(replica, -1, &replica->source, error_out);
    }
    return finish(out, replica, error);
}

static struct hf_value bytes_of(const char *text)
{
    return (struct hf_value){.kind = HF_VALUE_BYTES, .count = strlen(text), .as.bytes = text};
}

int hf_replicas_from_package(struct hf_replica **out, struct hf_interpreters *group,
                             const char *path, const char *package, const char *name,
                             struct hf_value *error_out)
{
    if (error_out != NULL)
        *error_out = (struct hf_value){.kind = HF_VALUE_NONE};
    /* The same file for all, whatever becomes of the working directory and of links. */
    char whole[PATH_MAX];
    const struct hf_value arguments[] = {
        bytes_of(realpath(path, whole) != NULL ? whole : path),
        {.kind = HF_VALUE_TEXT, .as.text = package != NULL ? package : ""},
        {.kind = HF_VALUE_TEXT, .as.text = name},
    };
    return new_later(out, group, &(struct source){LOADER, arguments, 3}, error_out);
}

int hf_replicas_from_pickle(struct hf_replica **out, struct hf_interpreters *group,
                            const struct hf_value *pickle, struct hf_value *error_out)
{
    struct hf_value bytes = *pickle;
    const struct hf_value alone = {.kind = HF_VALUE_PICKLE, .count = 1, .as.items = &bytes};
    if (error_out != NULL)
        *error_out = (struct hf_value){.kind = HF_VALUE_NONE};
    const struct hf_value *whole = pickle->kind == HF_VALUE_BYTES ? &alone : pickle;
    if (whole->kind != HF_VALUE_PICKLE || !hf_value_is_argument(whole))
        return -EINVAL;
    return new_later(out, group, &(struct source){NULL, whole, 1}, error_out);
}

int hf_replicas_call(struct hf_replica *replica, const char *method,
                     const struct hf_value *arguments, size_t count, struct hf_value *result)
{
    struct hf_session *session;
    if (!hf_calls_may("a:b", arguments, count))
        return -EINVAL;
    int error = hf_sessions_begin(&session, replica->group, -1, 0);
    if (error != 0)
        return error;
    if (result != NULL)
        *result = (struct hf_value){.kind = HF_VALUE_NONE};
    error = hf_sessions_attach(session);
    if (error == 0) {
        hf_running_name(&session->runs, method != NULL ? method : "<replica>");
        struct hf_py_object *object = object_in(replica, session, &replica->source);
        struct hf_py_object *function =
            object != NULL ? hf_calls_part(session, object, method) : NULL;
        struct hf_py_object *returned =
            function != NULL ? hf_calls_invoke(session, function, arguments, count) : NULL;
        error = hf_calls_result(session, returned, result);
        if (function != NULL)
            replica->group->py->cpython->release(function);
    }
    hf_sessions_end(session);
    return error;
}

/* ---- dropping ---- */

static void remove_here(void *argument)
{
    struct removal *removal = argument;
    struct hf_py_object *names = names_in(removal->py);
    if (names == NULL || removal->py->dict_remove(names, removal->name) != 0)
        removal->py->cpython->clear_error();
    hf_free(removal);
}

void hf_replicas_drop(struct hf_replica *replica)
{
    struct hf_interpreters *group = replica->group;
    for (unsigned i = 0; i < group->count; i++) {
        const bool is_made = atomic_load(&replica->parts[i].object) != NULL;
        struct removal *removal = is_made ? hf_malloc(sizeof *removal) : NULL;
        if (removal == NULL)
            continue; /* it goes with the interpreter */
        removal->py = group->py;
        name_of(removal->name, replica, i);
        if (hf_posts_add(group->interpreters[i].id, remove_here, removal) != 0)
            hf_free(removal);
    }
    hf_group_drop(group);
    hf_value_free(&replica->copied);
    pthread_cond_destroy(&replica->made);
    pthread_mutex_destroy(&replica->lock);
    hf_free(replica);
}

bool hf_replicas_is_parents(const struct hf_replica *replica)
{
    return replica->generation != hf_registry_generation();
}
