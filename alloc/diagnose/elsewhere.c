/* SPDX-License-Identifier: BSD-2-Clause */
/* See elsewhere.h. */
#include "alloc/diagnose/elsewhere.h"

#include "alloc/heap/fork_gate.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* Milliseconds to wait for another thread. */
enum { NAPS = 2000 };

static struct place {
    ucontext_t from, to;
    void (*work)(void *argument);
    void *argument;
    alignas(16) char stack[64 * 1024];
} places[2];
static _Atomic(int) owner; /* a thread id; 0: nobody */
static bool nested;

static void work_at(int number)
{
    places[number].work(places[number].argument);
}

static bool run(int number, void (*work)(void *argument), void *argument)
{
    struct place *place = &places[number];
    if (getcontext(&place->to) != 0)
        return false;
    place->work = work;
    place->argument = argument;
    place->to.uc_stack.ss_sp = place->stack;
    place->to.uc_stack.ss_size = sizeof place->stack;
    place->to.uc_link = &place->from;
    makecontext(&place->to, (void (*)(void))work_at, 1, number);
    return swapcontext(&place->from, &place->to) == 0;
}

bool hf_elsewhere(void (*work)(void *argument), void *argument)
{
    const int self = (int)syscall(SYS_gettid);
    if (atomic_load(&owner) == self) {
        if (nested)
            return false;
        nested = true;
        const bool done = run(1, work, argument);
        nested = false;
        return done;
    }
    for (int i = 0, nobody = 0; !atomic_compare_exchange_strong(&owner, &nobody, self); i++) {
        if (i == NAPS)
            return false;
        nobody = 0;
        hf_gate_pause(1000000);
    }
    const bool done = run(0, work, argument);
    atomic_store(&owner, 0);
    return done;
}

void hf_elsewhere_in_child(void)
{
    nested = false;
    atomic_store(&owner, 0);
}
