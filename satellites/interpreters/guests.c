/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the entries of guests. An entry belongs to a capsule in the guest's own dictionary, which
 * CPython clears when nothing else of the interpreter is left; until then the entry tells that the
 * guest has ended. Who ends a guest is not asked: a function that `atexit` calls there closes its
 * queue, and waits for the thread that is serving it. Afterwards no thread of homefree's attaches
 * to the guest.
 *
 * A forked child leaves its parent's entries alone: threads that are gone may hold their locks.
 */
#include "satellites/interpreters/guests.h"

#include "satellites/interpreters/posts.h"
#include "satellites/interpreters/registry.h"
#include "satellites/interpreters/thread_states.h"

#include <homefree/alloc.h>

static const char capsule_name[] = "homefree.guest";

static struct hf_interpreter *entry_of(struct hf_py_object *capsule)
{
    const struct hf_cpython *cpython = hf_cpython();
    struct hf_interpreter *guest = cpython->capsule_pointer(capsule, capsule_name);
    return guest != NULL && guest->generation == hf_registry_generation() ? guest : NULL;
}

/* The guest's atexit function. Attached; returns so. */
static struct hf_py_object *close_guest(struct hf_py_object *capsule, struct hf_py_object *unused)
{
    const struct hf_cpython_interpreters *py = hf_cpython_interpreters();
    struct hf_interpreter *guest = entry_of(capsule);
    (void)unused;
    if (guest != NULL) {
        struct hf_py_thread *thread = py->cpython->detach();
        pthread_mutex_lock(&guest->lock);
        guest->finishing = true;
        while (guest->helpers != 0)
            (void)hf_wait(&guest->wake, &guest->lock, NULL);
        pthread_mutex_unlock(&guest->lock);
        py->cpython->attach(thread);
        hf_posts_run(guest);
    }
    py->take(py->none);
    return py->none;
}

/* The capsule's destructor: the interpreter is gone but for its last few objects. */
static void forget(struct hf_py_object *capsule)
{
    struct hf_interpreter *guest = entry_of(capsule);
    if (guest == NULL)
        return;
    hf_registry_drop(guest);
    pthread_mutex_lock(&guest->lock);
    const bool used = guest->helpers != 0; /* `atexit` was not let run */
    pthread_mutex_unlock(&guest->lock);
    if (used)
        return;
    pthread_cond_destroy(&guest->wake);
    pthread_mutex_destroy(&guest->lock);
    hf_free(guest);
}

/* Has `atexit` call close_guest(). Returns whether that worked. */
static bool watch_end(const struct hf_cpython_interpreters *py, struct hf_py_object *capsule)
{
    static struct hf_py_method method = {"homefree_close_guest", close_guest, HF_PY_NO_ARGUMENTS,
                                         NULL};
    struct hf_py_object *function = py->function_new(&method, capsule, NULL);
    struct hf_py_object *module = function != NULL ? py->import("atexit") : NULL;
    struct hf_py_object *registers =
        module != NULL ? py->cpython->attribute(module, "register") : NULL;
    struct hf_py_object *result =
        registers != NULL ? py->call_with(registers, function, NULL) : NULL;
    struct hf_py_object *const used[] = {function, module, registers, result};
    for (size_t i = 0; i < sizeof used / sizeof used[0]; i++)
        if (used[i] != NULL)
            py->cpython->release(used[i]);
    return result != NULL;
}

/* Attached to the guest. Another thread there may be doing the same: the first one to list the
 * interpreter wins. */
static bool admit(const struct hf_cpython_interpreters *py, struct hf_py_interpreter *python)
{
    struct hf_interpreter *guest = hf_calloc(1, sizeof *guest);
    if (guest == NULL)
        return false;
    hf_interpreter_prepare(guest);
    guest->generation = hf_registry_generation();
    guest->python = python;
    guest->id = py->interpreter_id(python);
    struct hf_py_object *names = py->interpreter_dict(python); /* borrowed */
    struct hf_py_object *capsule =
        names != NULL ? py->cpython->capsule_new(guest, capsule_name, forget) : NULL;
    if (capsule == NULL) {
        hf_free(guest);
        return false;
    }
    const bool admitted = watch_end(py, capsule) && hf_registry_add_once(guest);
    if (admitted && py->dict_set(names, capsule_name, capsule) != 0)
        py->take(capsule); /* kept for ever */
    py->cpython->release(capsule);
    return admitted;
}

bool hf_guests_admit(int64_t id)
{
    const struct hf_cpython_interpreters *py =
        hf_cpython_find(NULL) != NULL ? hf_cpython_interpreters() : NULL;
    const struct hf_thread_record *record = hf_thread_record(false);
    if (py == NULL || id == 0 || !hf_cpython_attached(py->cpython))
        return false;
    /* What an owner thread makes or ends is no guest. */
    struct hf_py_interpreter *python = py->interpreter_of(py->cpython->current_thread());
    if ((record != NULL && record->is_owner_thread) || py->interpreter_id(python) != id)
        return false;
    struct hf_interpreter *listed = hf_registry_lock(id);
    if (listed != NULL) {
        pthread_mutex_unlock(&listed->lock);
        return true;
    }
    struct hf_py_object *type, *value, *traceback;
    py->error_fetch(&type, &value, &traceback);
    (void)admit(py, python);
    py->cpython->clear_error();
    py->error_restore(type, value, traceback);
    listed = hf_registry_lock(id);
    if (listed != NULL)
        pthread_mutex_unlock(&listed->lock);
    return listed != NULL;
}
