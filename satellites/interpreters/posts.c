/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the thread that serves the main interpreter's queue, which is made for the first post, and
 * those that serve guests' queues, which end when a queue is empty. The others' queues are served
 * by their owner threads.
 */
#include "satellites/interpreters/posts.h"

#include "satellites/interpreters/engine.h"
#include "satellites/interpreters/registry.h"
#include "satellites/interpreters/thread_states.h"

#include <errno.h>
#include <homefree/alloc.h>

/* Whether the main interpreter runs nothing any more, or has never been there. */
static bool main_is_gone(void)
{
    const struct hf_cpython_interpreters *py = hf_cpython_interpreters();
    return py == NULL || hf_engine_is_gone(py);
}

static struct hf_interpreter_post *take_all(struct hf_interpreter *interpreter)
{
    pthread_mutex_lock(&interpreter->lock);
    struct hf_interpreter_post *first = interpreter->head;
    interpreter->head = NULL;
    interpreter->tail = &interpreter->head;
    pthread_mutex_unlock(&interpreter->lock);
    return first;
}

void hf_posts_run(struct hf_interpreter *interpreter)
{
    if (atomic_load_explicit(&interpreter->posted, memory_order_relaxed) == 0)
        return;
    const struct hf_thread_record *record = hf_thread_record(false);
    struct hf_running *running = record != NULL ? record->running : NULL;
    struct hf_running_before before;
    hf_running_begin(running, &before, "<posted>");
    for (struct hf_interpreter_post *post = take_all(interpreter), *next; post != NULL;
         post = next) {
        next = post->next;
        post->run(post->argument);
        hf_free(post);
        atomic_fetch_sub(&interpreter->posted, 1);
    }
    hf_running_end(running, &before);
}

/* ---- the main interpreter ---- */

/* Once CPython is finalized nothing can run. What the functions would have released is leaked. */
static void discard(struct hf_interpreter *interpreter)
{
    for (struct hf_interpreter_post *post = take_all(interpreter), *next; post != NULL;
         post = next) {
        next = post->next;
        hf_free(post);
        atomic_fetch_sub(&interpreter->posted, 1);
    }
}

static bool run_attached(struct hf_interpreter *interpreter, struct hf_py_interpreter *python)
{
    const struct hf_cpython_interpreters *py = hf_cpython_interpreters();
    struct hf_py_thread *thread = py->thread_new(python);
    if (thread == NULL)
        return false;
    py->cpython->attach(thread);
    hf_posts_run(interpreter);
    py->thread_clear(thread);
    py->thread_delete_current();
    return true;
}

static void run_in_main(struct hf_interpreter *interpreter)
{
    if (main_is_gone() || !run_attached(interpreter, hf_cpython_interpreters()->main_interpreter()))
        discard(interpreter);
}

static void *serve_main(void *argument)
{
    struct hf_interpreter *interpreter = argument;
    for (;;) {
        pthread_mutex_lock(&interpreter->lock);
        while (interpreter->head == NULL)
            pthread_cond_wait(&interpreter->wake, &interpreter->lock);
        pthread_mutex_unlock(&interpreter->lock);
        run_in_main(interpreter);
    }
    return NULL;
}

/* ---- guests ---- */

/* The guest does not end before this has counted itself out (guests.c). */
static void *serve_guest(void *argument)
{
    struct hf_interpreter *guest = argument;
    bool again = true;
    while (again) {
        const bool ran = run_attached(guest, guest->python);
        pthread_mutex_lock(&guest->lock);
        again = ran && guest->head != NULL && !guest->finishing;
        if (!again) {
            guest->helpers--;
            pthread_cond_signal(&guest->wake);
        }
        pthread_mutex_unlock(&guest->lock);
    }
    return NULL;
}

/* Under the interpreter's lock. Makes sure that somebody will run what is in the queue. */
static int be_served(struct hf_interpreter *interpreter)
{
    const bool is_main = interpreter->id == 0;
    if (is_main && main_is_gone())
        return -ESHUTDOWN;
    if (interpreter->group != NULL || (is_main && interpreter->has_owner_thread) ||
        (!is_main && interpreter->helpers != 0))
        return 0;
    if (interpreter->finishing)
        return -ECANCELED;
    const int error = hf_thread_make(is_main ? serve_main : serve_guest, interpreter);
    if (error == 0 && is_main)
        interpreter->has_owner_thread = true;
    else if (error == 0)
        interpreter->helpers++;
    return error;
}

/* ---- for every interpreter ---- */

int hf_posts_add(int64_t id, void (*run)(void *argument), void *argument)
{
    if (run == NULL)
        return -EINVAL;
    struct hf_interpreter_post *post = hf_malloc(sizeof *post);
    if (post == NULL)
        return -ENOMEM;
    *post = (struct hf_interpreter_post){.run = run, .argument = argument};
    struct hf_interpreter *interpreter = hf_registry_lock(id);
    int error = interpreter == NULL ? -ESHUTDOWN : 0;
    if (interpreter != NULL)
        error = be_served(interpreter);
    if (error == 0) {
        *interpreter->tail = post;
        interpreter->tail = &post->next;
        atomic_fetch_add(&interpreter->posted, 1);
        pthread_cond_signal(&interpreter->wake);
    } else
        hf_free(post);
    if (interpreter != NULL)
        pthread_mutex_unlock(&interpreter->lock);
    return error;
}

int hf_posts_hold(int64_t id)
{
    struct hf_interpreter *interpreter = hf_registry_lock(id);
    if (interpreter == NULL)
        return -ESHUTDOWN;
    const bool ends = interpreter->finishing;
    interpreter->held += !ends;
    pthread_mutex_unlock(&interpreter->lock);
    return ends ? -ECANCELED : 0;
}

void hf_posts_unhold(int64_t id)
{
    struct hf_interpreter *interpreter = hf_registry_lock(id);
    if (interpreter == NULL)
        return;
    if (interpreter->held > 0 && --interpreter->held == 0)
        pthread_cond_signal(&interpreter->wake);
    pthread_mutex_unlock(&interpreter->lock);
}
