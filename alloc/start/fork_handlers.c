/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The heap's only fork(2) handlers, and the order of their steps. Owns nothing. They run in the
 * forking thread, before, after or between other libraries' handlers; several threads may fork at
 * once. heap/fork_gate.h explains how the gate keeps the heap consistent.
 */
#include "alloc/start/fork_handlers.h"

#include "alloc/base/fork_lock.h"
#include "alloc/base/satellite.h"
#include "alloc/heap/fork_gate.h"
#include "alloc/heap/front_end.h"
#include "alloc/heap/resume.h"
#include "alloc/owner/hosted.h"
#include "alloc/space/space_calls.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

static void before_fork(void)
{
    int saved_errno = errno;
    hf_gate_close();
    errno = saved_errno;
}

/* Performs the work that was deferred while the gate was closed. */
static void catch_up(void)
{
    hf_heap_catch_up();
    hf_hosted_catch_up();
}

static void in_parent(void)
{
    int saved_errno = errno;
    hf_gate_open_in_parent();
    catch_up();
    errno = saved_errno;
}

extern char first[] __asm__("__start_hf_fork_locks") __attribute__((visibility("hidden")));
extern char end[] __asm__("__stop_hf_fork_locks") __attribute__((visibility("hidden")));

static void reset_locks(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    for (char *at = first; at < end; at += HF_FORK_LOCK_SIZE)
        memcpy(at, &fresh, sizeof fresh);
    hf_satellites_in_child();
}

/* No thread was inside the heap while the process was copied. */
static void in_child(void)
{
    int saved_errno = errno;
    reset_locks();
    hf_gate_empty_in_child();
    hf_heap_reset_in_child();
    hf_gate_open_in_child();
    hf_spaces_in_child();
    hf_resume_in_child();
    catch_up();
    errno = saved_errno;
}

int hf_fork_handlers_register(bool heap)
{
    return heap ? pthread_atfork(before_fork, in_parent, in_child)
                : pthread_atfork(NULL, NULL, reset_locks);
}
