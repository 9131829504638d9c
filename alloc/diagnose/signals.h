/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The signals by which a process crashes. Where the program has no handler for one, ours records
 * the end, and then the signal takes its usual course. The program does not see that handler: it
 * reads SIG_DFL, as it would without us. Rust's runtime and others install theirs only then.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_SIGNALS_H
#define HOMEFREE_ALLOC_DIAGNOSE_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* Catches crashes from now on. `ended` records the end by a signal; it runs in the handler. */
void hf_signals_start(void (*ended)(int number));

/* Lets accesses to guarded samples be judged before a handler of the program's runs,
 * from now on. Called after hf_signals_start(). */
void hf_signals_watch_accesses(void);

/* Whether they are judged now: the program may have given the kernel a handler that we did not see.
 */
bool hf_signals_see_accesses(void);

/* From now on crashes are recorded without a system call, and accesses are not judged any more. */
void hf_signals_confine(void);

/* sigaction(2) and signal(2) for the program. Async-signal-safe. */
int hf_signals_action(int number, const struct sigaction *action, struct sigaction *old);
sighandler_t hf_signals_handle(int number, sighandler_t handler);

#endif
