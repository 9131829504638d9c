/*
 * The heap's only fork(2) handlers, and the order of their steps. Owns nothing. They run in the
 * forking thread, before, after or between other libraries' handlers; several threads may fork at
 * once. jemalloc/fork_gate.h explains how the gate keeps the heap consistent.
 */
#include "alloc/start/fork_handlers.h"

#include "alloc/heap/region.h"
#include "alloc/jemalloc/fork_gate.h"
#include "alloc/jemalloc/seam.h"
#include "alloc/owner/hosted.h"
#include "alloc/trace/watch_table.h"

#include <errno.h>
#include <pthread.h>

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

/* No thread was inside the heap while the process was copied. Reinitialises locks that a thread
 * which no longer exists may have held outside the gate. */
static void in_child(void)
{
    int saved_errno = errno;
    hf_gate_empty_in_child();
    hf_region_reset();
    hf_watch_reset();
    hf_heap_reset_in_child();
    hf_gate_open_in_child();
    catch_up();
    errno = saved_errno;
}

int hf_fork_handlers_register(void)
{
    return pthread_atfork(before_fork, in_parent, in_child);
}
