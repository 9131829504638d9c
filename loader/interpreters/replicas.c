/*
 * Owns the objects of each replica, by a reference in a module `_homefree_replicas` of their
 * interpreter: if that ends first, they are released with its modules.
 */
#include "loader/interpreters/replicas.h"

#include "loader/interpreters/posts.h"
#include "loader/interpreters/registry.h"
#include "loader/interpreters/session_calls.h"
#include "loader/interpreters/sessions.h"
#include "loader/interpreters/values.h"

#include <errno.h>
#include <homefree/alloc.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MODULE "_homefree_replicas"

struct hf_replica {
    struct hf_interpreters *group; /* a reference */
    unsigned generation;
    char name[24];                  /* in the module */
    struct hf_py_object *objects[]; /* borrowed from the module; NULL: not made */
};

/* What is posted to an interpreter when a replica is dropped. */
struct removal {
    const struct hf_cpython_interpreters *py;
    char name[24];
};

static struct hf_py_object *names_in(const struct hf_cpython_interpreters *py)
{
    struct hf_py_object *module = py->add_module(MODULE);
    return module != NULL ? py->module_dict(module) : NULL;
}

static int make_in(struct hf_replica *replica, unsigned index, const char *maker,
                   const struct hf_value *arguments, size_t count, struct hf_value *error_out)
{
    const struct hf_cpython_interpreters *py = replica->group->py;
    struct hf_session *session;
    int error = hf_sessions_begin(&session, replica->group, (int)index, 0);
    if (error != 0)
        return error;
    error = hf_sessions_attach(session);
    if (error == 0) {
        struct hf_py_object *function = hf_calls_find(session, maker);
        struct hf_py_object *names = function != NULL ? names_in(py) : NULL;
        struct hf_py_object *object =
            names != NULL ? hf_calls_invoke(session, function, arguments, count) : NULL;
        if (object == NULL || py->dict_set(names, replica->name, object) != 0) {
            hf_value_from_error(py, error_out);
            error = -EPROTO;
        } else
            replica->objects[index] = object;
        if (object != NULL)
            py->cpython->release(object);
        if (function != NULL)
            py->cpython->release(function);
    }
    hf_sessions_end(session);
    return error;
}

int hf_replicas_new(struct hf_replica **out, struct hf_interpreters *group, const char *maker,
                    const struct hf_value *arguments, size_t count, struct hf_value *error_out)
{
    static atomic_uint_fast64_t numbers;
    if (error_out != NULL)
        *error_out = (struct hf_value){.kind = HF_VALUE_NONE};
    if (!hf_calls_may(maker, arguments, count))
        return -EINVAL;
    struct hf_replica *replica =
        hf_calloc(1, sizeof *replica + group->count * sizeof *replica->objects);
    if (replica == NULL)
        return -ENOMEM;
    hf_group_take(group);
    replica->group = group;
    replica->generation = group->generation;
    snprintf(replica->name, sizeof replica->name, "r%" PRIuFAST64, atomic_fetch_add(&numbers, 1));
    /* Without a GIL the interpreters are one, but each has an object of its own. */
    int error = 0;
    for (unsigned i = 0; error == 0 && i < group->count; i++)
        error = make_in(replica, i, maker, arguments, count, error_out);
    if (error != 0)
        hf_replicas_drop(replica);
    else
        *out = replica;
    return error;
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
        struct hf_py_object *object = replica->objects[session->interpreter->index];
        struct hf_py_object *function = hf_calls_part(session, object, method);
        struct hf_py_object *returned =
            function != NULL ? hf_calls_invoke(session, function, arguments, count) : NULL;
        error = hf_calls_result(session, returned, result);
        if (function != NULL)
            replica->group->py->cpython->release(function);
    }
    hf_sessions_end(session);
    return error;
}

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
        struct removal *removal = replica->objects[i] != NULL ? hf_malloc(sizeof *removal) : NULL;
        if (removal == NULL)
            continue; /* it goes with the interpreter */
        removal->py = group->py;
        memcpy(removal->name, replica->name, sizeof removal->name);
        if (hf_posts_add(group->interpreters[i].id, remove_here, removal) != 0)
            hf_free(removal);
    }
    hf_group_drop(group);
    hf_free(replica);
}

bool hf_replicas_is_parents(const struct hf_replica *replica)
{
    return replica->generation != hf_registry_generation();
}
