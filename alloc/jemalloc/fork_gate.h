/*
 * The gate that fork(2) closes: how the heap stays consistent in a forked child, although no lock
 * of the heap is held while handlers of others run.
 *
 * fork calls pthread_atfork's prepare handlers, last registered first, then takes the locks of
 * stdio, and only then copies the process. A heap that locks itself in its prepare handler makes
 * everybody wait who needs memory meanwhile: handlers that were registered earlier, and threads
 * that hold what those handlers or fork itself go on to lock. So nobody waits:
 *   - whoever is about to take a lock of the heap passes the gate, and leaves it afterwards;
 *   - the prepare handler closes the gate and waits until nobody is inside, which takes as long as
 *     one call of the heap;
 *   - who finds the gate closed does without the heap's locks: what is freed is put on a list for
 *     later, and memory comes from libc, whose own locks fork takes last of all, unless the fork is
 *     over soon;
 *   - the handlers in parent and child open the gate and work the list off.
 * Hence nobody is in the middle of anything when the process is copied.
 *
 * Each thread has a cell of its own to say that it is inside, as long as there are cells; threads
 * without one share the first. To pass costs one exchange.
 */
#ifndef HOMEFREE_JEMALLOC_FORK_GATE_H
#define HOMEFREE_JEMALLOC_FORK_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hf_gate_cell {
    uint32_t inside; /* the shared cell counts; others say 0 or 1 */
    uint32_t taken;
} __attribute__((aligned(64)));

enum { HF_GATE_CELLS = 128 };
extern struct hf_gate_cell hf_gate_cells[HF_GATE_CELLS] __attribute__((visibility("hidden")));

/* Forks under way; the gate is closed while it is not 0. */
extern uint32_t hf_gate_forks __attribute__((visibility("hidden")));

/* The calling thread's cell; NULL while it has none. */
extern __thread struct hf_gate_cell *hf_gate_own
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Gets the calling thread a cell of its own, and gives it back: when its data comes and goes. */
void hf_gate_claim(void);
void hf_gate_disclaim(void);

/* The cell by which the calling thread is inside; NULL while it is outside. A signal handler that
 * runs between the two steps of entering does not find it set, and so asks the gate itself. */
extern __thread struct hf_gate_cell *hf_gate_inside
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

struct hf_pass {
    struct hf_gate_cell *cell; /* NULL for a pass inside another one */
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

/* True: the caller is inside, and must leave. A call inside another one (nested, or from a signal
 * handler) gets in with it: fork is waiting for the outer one. */
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
        /* Who shares the cell looks first: the one who forks must see it at 0 some time. */
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

/* For who found the gate closed: waits until it is open, but not for long, because the fork may be
 * waiting for this very thread. The thread that forks does not wait. False: do without the heap. */
bool hf_gate_wait(void);
/* For who ends the process: the calling thread is outside from now on, however it got inside, and
 * must not go back to what it was doing there. */
void hf_gate_abandon(void);
/* For who can wait longer than hf_gate_wait(): until no fork is under way, for 2 s at most, because
 * the fork may be waiting for this very thread. The thread that forks does not wait. */
void hf_gate_wait_long(void);
/* Sleeps; no cancellation point, and errno stays. */
void hf_gate_pause(long nanoseconds);

static inline bool hf_gate_is_closed(void)
{
    return __atomic_load_n(&hf_gate_forks, __ATOMIC_SEQ_CST) != 0;
}

/* For the fork handlers (start/fork_handlers.c); none of these keeps errno. The first closes the
 * gate and waits until nobody is inside; several threads may fork at a time, and a thread that
 * forks in a signal handler does not wait for itself. The second takes one such closing back. The
 * last two are for a child, where no other thread is left: they empty the cells of the threads that
 * are gone, and open the gate. */
void hf_gate_close(void);
void hf_gate_open_in_parent(void);
void hf_gate_empty_in_child(void);
void hf_gate_open_in_child(void);

#endif
