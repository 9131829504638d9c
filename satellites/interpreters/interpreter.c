/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lives of the structures in interpreter.h, and waiting for a change in them. Owns nothing of
 * its own.
 */
#include "satellites/interpreters/interpreter.h"

#include <homefree/alloc.h>

void hf_condition_prepare(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

void hf_interpreter_prepare(struct hf_interpreter *interpreter)
{
    pthread_mutex_init(&interpreter->lock, NULL);
    hf_condition_prepare(&interpreter->wake);
    interpreter->id = -1;
    interpreter->tail = &interpreter->head;
}

struct hf_interpreters *hf_group_new(unsigned count)
{
    struct hf_interpreters *group =
        hf_calloc(1, sizeof *group + count * sizeof *group->interpreters);
    if (group == NULL)
        return NULL;
    group->count = count;
    atomic_init(&group->references, 1);
    pthread_mutex_init(&group->lock, NULL);
    hf_condition_prepare(&group->changed);
    for (unsigned i = 0; i < count; i++) {
        hf_interpreter_prepare(&group->interpreters[i]);
        group->interpreters[i].group = group;
        group->interpreters[i].index = i;
        group->interpreters[i].tended.interpreter = &group->interpreters[i];
    }
    return group;
}

void hf_group_take(struct hf_interpreters *group)
{
    atomic_fetch_add(&group->references, 1);
}

void hf_group_drop(struct hf_interpreters *group)
{
    if (atomic_fetch_sub(&group->references, 1) != 1)
        return;
    for (unsigned i = 0; i < group->count; i++) {
        pthread_mutex_destroy(&group->interpreters[i].lock);
        pthread_cond_destroy(&group->interpreters[i].wake);
    }
    pthread_mutex_destroy(&group->lock);
    pthread_cond_destroy(&group->changed);
    if (group->naming_ends != NULL)
        group->naming_ends();
    hf_free(group);
}

void hf_group_changed(struct hf_interpreters *group)
{
    if (atomic_load(&group->waiting) == 0)
        return;
    pthread_mutex_lock(&group->lock);
    pthread_cond_broadcast(&group->changed);
    pthread_mutex_unlock(&group->lock);
}

bool hf_deadline(struct timespec *out, int timeout_ms)
{
    if (timeout_ms < 0)
        return false;
    clock_gettime(CLOCK_MONOTONIC, out);
    out->tv_sec += timeout_ms / 1000;
    out->tv_nsec += timeout_ms % 1000 * 1000000L;
    if (out->tv_nsec >= 1000000000) {
        out->tv_sec++;
        out->tv_nsec -= 1000000000;
    }
    return true;
}

bool hf_wait(pthread_cond_t *condition, pthread_mutex_t *lock, const struct timespec *deadline)
{
    if (deadline == NULL)
        return pthread_cond_wait(condition, lock) == 0;
    return pthread_cond_timedwait(condition, lock, deadline) == 0;
}
