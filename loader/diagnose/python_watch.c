/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the moment at which a diagnosed process's CPython is found: before it starts. That is when
 * the process starts, in a python or a program that needs libpython, or when libpython is loaded.
 * In such a process, a crash names the interpreter; with `--leaks`, what is left of an interpreter
 * that has ended is a finding.
 *
 * The constructor runs after the diagnosis has begun (alloc/diagnose/diagnosis.c).
 */
#include "alloc/base/dynlink.h"
#include "alloc/diagnose/findings.h"
#include "alloc/diagnose/interpreter_sites.h"
#include "alloc/diagnose/leaks.h"
#include "alloc/diagnose/python_stack.h"
#include "alloc/diagnose/unwind.h"
#include "loader/diagnose/python_domains.h"
#include "loader/host/cpython.h"
#include "loader/host/python_frames.h"
#include "loader/host/shared_blocks.h"
#include "loader/interpose/loader_lock.h"
#include "loader/interpose/route.h"
#include "loader/satellites/interpreters_api.h"

#include <pthread.h>
#include <stdbool.h>

/* ---- frames ---- */

/* Of Python, for the stacks of a report. Reads are guarded (unwind.h): a wrong pointer ends the
 * stack. */

struct taking {
    struct hf_python_frame *frames;
    volatile size_t count;
};

static void follow(void *argument)
{
    struct taking *taking = argument;
    hf_python_frames_take(HF_PYTHON_BELIEVE, taking->frames, &taking->count);
}

static size_t take(struct hf_python_frame frames[HF_PYTHON_FRAMES_MAX])
{
    struct taking taking = {.frames = frames};
    (void)hf_unwind_guard(follow, &taking);
    return taking.count;
}

struct describing {
    const struct hf_python_frame *frame;
    struct hf_python_place *out;
};

static void read_place(void *argument)
{
    const struct describing *describing = argument;
    hf_python_frame_describe(HF_PYTHON_BELIEVE, describing->frame, describing->out);
}

static void describe(const struct hf_python_frame *frame, struct hf_python_place *out)
{
    struct describing describing = {frame, out};
    out->file[0] = out->function[0] = '\0';
    out->line = 0;
    (void)hf_unwind_guard(read_place, &describing);
}

static void offer_frames(const struct hf_cpython *cpython)
{
    if (hf_python_frames_start(cpython, hf_cpython_attached))
        hf_python_stack_offer(&(struct hf_python_stack_functions){take, describe});
}

/* ---- CPython ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool found, begun;

/* Stores a function of CPython in any loaded object. Under the loader's lock: other threads unload
 * objects. */
static void find_function(void *result)
{
    const void **function = result;
    const struct link_map *map = hf_dynlink_first();
    struct hf_object object;
    for (; map != NULL && *function == NULL; map = map->l_next)
        if (hf_dynlink_open(map, &object))
            *function = hf_object_address(&object, "PyMem_SetAllocator");
}

/* Nobody waits: whoever finds the lock taken has loaded something else, or it is being looked at.
 */
static void look_for_cpython(void)
{
    if (hf_diagnose.mode == HF_REPORT_COUNT || pthread_mutex_trylock(&lock) != 0)
        return;
    const void *function = NULL;
    if (begun && !found)
        (void)hf_loader_lock_run(find_function, &function);
    const struct hf_cpython *cpython = function != NULL ? hf_cpython_find(function) : NULL;
    if (cpython != NULL) {
        offer_frames(cpython);
        hf_python_domains_install(cpython);
    }
    found = found || function != NULL;
    pthread_mutex_unlock(&lock);
}

/* The library is linked with --wrap=hf_route_new_objects: what the hook of dlopen() calls after an
 * object was loaded. */
void __real_hf_route_new_objects(void); // NOLINT(bugprone-reserved-identifier)
void __wrap_hf_route_new_objects(void); // NOLINT(bugprone-reserved-identifier)
void __wrap_hf_route_new_objects(void)  // NOLINT(bugprone-reserved-identifier)
{
    __real_hf_route_new_objects();
    look_for_cpython();
}

/* ---- interpreters ---- */

static void thread_moves(int64_t interpreter)
{
    hf_interpreter_sites_move((uint32_t)interpreter);
}

/* Arrays that others were given outlive their interpreter. */
static bool is_held(const void *block)
{
    return hf_shared_blocks_has(block);
}

static void interpreter_ended(int64_t interpreter)
{
    hf_interpreter_leaks_find((uint32_t)interpreter, is_held);
}

__attribute__((constructor(103))) static void start_watching(void)
{
    begun = true;
    struct hf_interpreters_observer observer = {.names_crashes = true};
    if (hf_diagnose.leaks && hf_diagnose.mode != HF_REPORT_COUNT) {
        observer.moved = thread_moves;
        observer.ended = interpreter_ended;
    }
    hf_interpreters_observe(&observer);
    look_for_cpython();
}
