/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The gate that fork(2) closes. It keeps the heap consistent in a forked child, although no lock of
 * the heap is held while other libraries' atfork handlers run.
 *
 * fork calls pthread_atfork's prepare handlers, last registered first, then takes stdio's locks,
 * and only then copies the process. A heap that locked itself in its prepare handler would block
 * every thread that needs memory meanwhile: earlier registered handlers, and threads that hold
 * locks which those handlers or fork itself need. So nothing blocks:
 *   - a thread enters the gate before it takes a lock of the heap, and leaves it afterwards;
 *   - the prepare handler closes the gate and waits until it is empty, which takes as long as one
 *     call into the heap;
 *   - a thread that finds the gate closed does without the heap's locks: frees are deferred on a
 *     list, and memory comes from libc, whose own locks fork takes last of all, unless the fork is
 *     over soon;
 *   - the handlers in parent and child open the gate and process the list.
 * Hence no thread is inside the heap when the process is copied.
 *
 * Each thread marks its presence in a cell of its own, as long as there are cells; threads without
 * one share the first. Entering costs one exchange. heap/fork_gate.c owns the cells; any thread may
 * enter at any stage, in signal handlers too.
 */
#ifndef HOMEFREE_ALLOC_HEAP_FORK_GATE_H
#define HOMEFREE_ALLOC_HEAP_FORK_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hf_gate_cell {
    uint32_t inside; /* the shared cell counts; others hold 0 or 1 */
    uint32_t taken;
} __attribute__((aligned(64)));

enum { HF_GATE_CELLS = 128 };
extern struct hf_gate_cell hf_gate_cells[HF_GATE_CELLS] __attribute__((visibility("hidden")));

/* Forks under way; the gate is closed while it is not 0. */
extern uint32_t hf_gate_forks __attribute__((visibility("hidden")));

/* The calling thread's own cell, or NULL. */
extern __thread struct hf_gate_cell *hf_gate_own
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Claim a cell for the calling thread, and return it: when the thread's data is created and
 * destroyed. */
void hf_gate_claim(void);
void hf_gate_disclaim(void);

/* The cell through which the calling thread is inside; NULL while it is outside. It is not yet set
 * for a signal handler between the two steps of entering, which then enters by itself. */
extern __thread struct hf_gate_cell *hf_gate_inside
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

struct hf_pass {
    struct hf_gate_cell *cell; /* NULL for a nested pass */
    uint32_t before;
};

static inline void hf_gate_undo(const struct hf_pass *pass)
{
    if (__builtin_expect(pass->cell != &hf_gate_cells[0], 1))
        __atomic_store_n(&pass->cell->inside, pass->before, __ATOMIC_RELEASE);
    else
        __atomic_sub_fetch(&pass->cell->inside, 1, __ATOMIC_RELEASE);
}

static inline void hf_gate_leave(const struct hf_pass *pass)
{
    if (pass->cell == NULL)
        return;
    hf_gate_inside = NULL;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    hf_gate_undo(pass);
}

/* True: the caller is inside, and must leave. A nested call (or one from a signal handler) always
 * gets in, because fork waits for the outer one. */
static inline bool hf_gate_enter(struct hf_pass *pass)
{
    pass->before = 0;
    pass->cell = NULL;
    if (__builtin_expect(hf_gate_inside != NULL, 0))
        return true;
    pass->cell = hf_gate_own;
    if (__builtin_expect(pass->cell != NULL, 1)) {
        pass->before = __atomic_exchange_n(&pass->cell->inside, 1, __ATOMIC_SEQ_CST);
    } else {
        /* Users of the shared cell look first, so that the forking thread sees it at 0 at some
         * time. */
        if (__atomic_load_n(&hf_gate_forks, __ATOMIC_RELAXED) != 0)
            return false;
        pass->cell = &hf_gate_cells[0];
        __atomic_add_fetch(&pass->cell->inside, 1, __ATOMIC_SEQ_CST);
    }
    if (__builtin_expect(__atomic_load_n(&hf_gate_forks, __ATOMIC_SEQ_CST) == 0, 1)) {
        hf_gate_inside = pass->cell;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        return true;
    }
    hf_gate_undo(pass);
    return false;
}

/* After hf_gate_enter() failed: waits until the gate is open, but not for long, because the fork
 * may be waiting for this thread. The forking thread does not wait. False: do without the heap. */
bool hf_gate_wait(void);
/* Before the process ends: takes the calling thread out of the gate, however it got inside. It must
 * not resume the interrupted call. */
void hf_gate_abandon(void);
/* Waits longer than hf_gate_wait(): until no fork is under way, for at most 2 s, because the fork
 * may be waiting for this thread. The forking thread does not wait. */
void hf_gate_wait_long(void);
/* Sleeps. Not a cancellation point; preserves errno. */
void hf_gate_pause(long nanoseconds);

static inline bool hf_gate_is_closed(void)
{
    return __atomic_load_n(&hf_gate_forks, __ATOMIC_SEQ_CST) != 0;
}

/* For the fork handlers (start/fork_handlers.c); these do not preserve errno. hf_gate_close()
 * closes the gate and waits until it is empty; several threads may fork at once, and a thread that
 * forks in a signal handler does not wait for itself. hf_gate_open_in_parent() undoes one close. In
 * a child, which has no other thread, hf_gate_empty_in_child() clears the other threads' cells and
 * hf_gate_open_in_child() opens the gate. */
void hf_gate_close(void);
void hf_gate_open_in_parent(void);
void hf_gate_empty_in_child(void);
void hf_gate_open_in_child(void);

#endif
