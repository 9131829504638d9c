/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the gate's cells and the count of forks under way, which all threads share as atomics; there
 * is no lock. heap/fork_gate.h describes the gate and says what may be called when;
 * start/fork_handlers.c closes and opens it.
 */
#include "alloc/heap/fork_gate.h"

#include "alloc/base/apart.h"
#include "alloc/base/libc_functions.h"
#include "alloc/heap/front_end.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

HF_APART struct hf_gate_cell hf_gate_cells[HF_GATE_CELLS];
uint32_t hf_gate_forks;
__thread struct hf_gate_cell *hf_gate_own, *hf_gate_inside;

/* ---- cells ---- */

void hf_gate_claim(void)
{
    if (hf_gate_own != NULL)
        return;
    size_t first = ((uintptr_t)&hf_gate_own >> 12) % HF_GATE_CELLS;
    for (size_t i = 0; i < HF_GATE_CELLS; i++) {
        struct hf_gate_cell *cell = &hf_gate_cells[(first + i) % HF_GATE_CELLS];
        uint32_t untaken = 0;
        if (cell != &hf_gate_cells[0] &&
            __atomic_load_n(&cell->taken, __ATOMIC_RELAXED) == untaken &&
            __atomic_compare_exchange_n(&cell->taken, &untaken, 1, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED)) {
            hf_gate_own = cell;
            return;
        }
    }
}

void hf_gate_disclaim(void)
{
    struct hf_gate_cell *cell = hf_gate_own;
    hf_gate_own = NULL;
    if (cell != NULL)
        __atomic_store_n(&cell->taken, 0, __ATOMIC_RELEASE);
}

/* Clears the thread's own cell as well, in case a signal interrupted the two steps of entering. */
void hf_gate_abandon(void)
{
    const bool shared = hf_gate_inside == &hf_gate_cells[0];
    hf_gate_inside = NULL;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (shared)
        __atomic_sub_fetch(&hf_gate_cells[0].inside, 1, __ATOMIC_RELEASE);
    if (hf_gate_own != NULL)
        __atomic_store_n(&hf_gate_own->inside, 0, __ATOMIC_RELEASE);
}

/* ---- waiting at the closed gate ---- */

/* syscall(2), because nanosleep(2) is a cancellation point, and malloc, free and fork must not
 * be. */
void hf_gate_pause(long nanoseconds)
{
    int saved_errno = errno;
    (void)syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = nanoseconds}, NULL);
    errno = saved_errno;
}

void *hf_fork_aligned(size_t alignment, size_t size)
{
    return alignment == 0 ? hf_libc()->malloc(size) : hf_libc()->memalign(alignment, size);
}

void *hf_fork_calloc(size_t count, size_t size)
{
    return hf_libc()->calloc(count, size);
}

static _Atomic(pthread_t) forker;
static atomic_bool patient; /* no wait has timed out since the gate closed */

bool hf_gate_wait(void)
{
    enum { TRIES = 1000 };
    int saved_errno = errno;
    for (int i = 0; i < TRIES && patient && forker != pthread_self(); i++) {
        if (!hf_gate_is_closed())
            break;
        hf_gate_pause(100000);
        if (i == TRIES - 1)
            patient = false;
    }
    errno = saved_errno;
    return !hf_gate_is_closed();
}

void hf_gate_wait_long(void)
{
    enum { TRIES = 2000 };
    for (int i = 0; i < TRIES && hf_gate_is_closed() && forker != pthread_self(); i++)
        hf_gate_pause(1000000);
}

/* ---- fork ---- */

/* Waits for another thread's fork to finish, so that the gate opens now and then even if threads
 * fork all the time. The wait is bounded, because that thread may be waiting for this one. */
static void close_gate(void)
{
    enum { TRIES = 500 };
    for (int i = 0; i < TRIES; i++) {
        uint32_t none = 0;
        if (__atomic_compare_exchange_n(&hf_gate_forks, &none, 1, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED))
            return;
        hf_gate_pause(100000);
    }
    __atomic_add_fetch(&hf_gate_forks, 1, __ATOMIC_SEQ_CST);
}

/* Does not wait for the calling thread's own entry: a signal handler that forks may have
 * interrupted a call inside the gate. */
static void wait_until_empty(void)
{
    for (size_t i = 0; i < HF_GATE_CELLS; i++) {
        const struct hf_gate_cell *cell = &hf_gate_cells[i];
        const uint32_t mine = i == 0 && hf_gate_inside == cell;
        for (unsigned tries = 0;
             cell != hf_gate_own && __atomic_load_n(&cell->inside, __ATOMIC_SEQ_CST) != mine;
             tries++)
            if (tries < 20)
                sched_yield();
            else
                hf_gate_pause(50000);
    }
}

void hf_gate_close(void)
{
    close_gate();
    forker = pthread_self();
    patient = true;
    wait_until_empty();
}

void hf_gate_open_in_parent(void)
{
    __atomic_sub_fetch(&hf_gate_forks, 1, __ATOMIC_SEQ_CST);
}

void hf_gate_empty_in_child(void)
{
    for (size_t i = 0; i < HF_GATE_CELLS; i++)
        if (&hf_gate_cells[i] != hf_gate_own &&
            (hf_gate_cells[i].inside != 0 ||
             hf_gate_cells[i].taken != 0)) /* a write copies a page */
            hf_gate_cells[i] = (struct hf_gate_cell){.inside = 0};
    if (hf_gate_inside == &hf_gate_cells[0])
        hf_gate_cells[0].inside = 1;
}

void hf_gate_open_in_child(void)
{
    __atomic_store_n(&hf_gate_forks, 0, __ATOMIC_SEQ_CST);
}
