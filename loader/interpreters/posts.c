/*
 * Owns the thread that serves the main interpreter's queue, which is made for the first post. The
 * others' queues are served by their caretakers.
 */
#include "loader/interpreters/posts.h"

#include "loader/interpreters/engine.h"
#include "loader/interpreters/registry.h"
#include "loader/interpreters/thread_states.h"

#include <errno.h>
#include <homefree/alloc.h>
#include <signal.h>

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
    for (struct hf_interpreter_post *post = take_all(interpreter), *next; post != NULL;
         post = next) {
        next = post->next;
        post->run(post->argument);
        hf_free(post);
        atomic_fetch_sub(&interpreter->posted, 1);
    }
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

static void run_in_main(struct hf_interpreter *interpreter)
{
    const struct hf_cpython_interpreters *py = hf_cpython_interpreters();
    struct hf_py_thread *thread = NULL;
    if (py != NULL && !hf_engine_is_gone(py))
        thread = py->thread_new(py->main_interpreter());
    if (thread == NULL) {
        discard(interpreter);
        return;
    }
    py->cpython->attach(thread);
    hf_posts_run(interpreter);
    py->thread_clear(thread);
    py->thread_delete_current();
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

/* Under the interpreter's lock. */
static int make_server(struct hf_interpreter *interpreter)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&thread, NULL, serve_main, interpreter);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return -EAGAIN;
    pthread_detach(thread);
    interpreter->has_caretaker = true;
    return 0;
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
    if (interpreter != NULL && interpreter->group == NULL && !interpreter->has_caretaker)
        error = make_server(interpreter);
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
    interpreter->held++;
    pthread_mutex_unlock(&interpreter->lock);
    return 0;
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
