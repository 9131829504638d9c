/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the number of groups whose crashes are named, its lock, and, sealed, the functions that
 * install and remove the handlers. These run under the lock.
 */
#include "satellites/interpreters/naming.h"

#include "alloc/base/fork_lock.h"
#include "alloc/base/seal.h"
#include "satellites/interpreters/interpreters_core.h"
#include "satellites/interpreters/registry.h"
#include "satellites/interpreters/thread_states.h"

struct functions {
    void (*install)(void);
    void (*remove)(void);
};

static HF_SEALED_UNION(struct functions, functions) table HF_SEALED;
static pthread_mutex_t HF_FORK_LOCK lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint groups;                           /* changed under `lock` */
static const struct hf_cpython_interpreters *python; /* the first group's */

void hf_naming_offer(void (*install)(void), void (*remove)(void))
{
    struct hf_seal seal;
    hf_seal_open_to_start(&seal);
    table.functions = (struct functions){install, remove};
    hf_seal_close(&seal);
}

static void end(void)
{
    pthread_mutex_lock(&lock);
    if (atomic_load(&groups) > 0 && atomic_fetch_sub(&groups, 1) == 1)
        table.functions.remove();
    pthread_mutex_unlock(&lock);
}

void hf_naming_begin(struct hf_interpreters *group, bool asked)
{
    if (!asked && !hf_core()->observer->names_crashes)
        return;
    pthread_mutex_lock(&lock);
    __atomic_store_n(&python, group->py, __ATOMIC_RELAXED);
    if (atomic_fetch_add(&groups, 1) == 0)
        table.functions.install();
    pthread_mutex_unlock(&lock);
    group->naming_ends = end;
}

void hf_naming_in_child(void)
{
    atomic_store(&groups, 0);
}

/* The interpreter of a thread that has no session: one of Python's own threads. */
static int64_t attached_to(const struct hf_cpython_interpreters *py)
{
    struct hf_py_thread *thread = py != NULL ? py->cpython->current_thread() : NULL;
    if (thread == NULL && py != NULL)
        thread = py->cpython->this_thread();
    return thread != NULL ? py->interpreter_id(py->interpreter_of(thread)) : -1;
}

bool hf_naming_here(struct hf_naming_place *out)
{
    const struct hf_thread_record *record = hf_thread_record(false);
    const struct hf_running *running = record != NULL ? record->running : NULL;
    if (atomic_load(&groups) == 0)
        return false;
    *out = (struct hf_naming_place){.interpreter = -1};
    if (running != NULL) {
        out->interpreter = running->interpreter->id;
        out->index = running->interpreter->index;
        out->count = running->interpreter->group->count;
        if (!hf_running_read(running, out->what))
            out->what[0] = '\0';
        return true;
    }
    out->interpreter = attached_to(__atomic_load_n(&python, __ATOMIC_RELAXED));
    if (out->interpreter > 0)
        (void)hf_registry_try_find(out->interpreter, &out->index, &out->count);
    return true;
}
