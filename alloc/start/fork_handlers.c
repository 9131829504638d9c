/*
 * Owns nothing: the heap's one set of handlers for fork(2), and the order of their steps. They run
 * in the thread that forks, before, after or between the handlers of others; several threads may
 * fork at a time. jemalloc/fork_gate.h says how the gate keeps the heap consistent.
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

/* Does what was put off while the gate was closed. */
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

/* No thread held a lock of the heap while the process was copied. Locks that a thread which is gone
 * may have held for other reasons are new. */
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
