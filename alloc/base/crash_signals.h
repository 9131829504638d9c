/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which signals are a crash: those that an instruction, a system call or the code itself raises
 * because it cannot go on. Whoever asks is told the same: a report, a record, a verdict on it, and
 * a thread that may block only the others.
 *
 * Owns nothing; any thread, in a signal handler.
 */
#ifndef HOMEFREE_ALLOC_BASE_CRASH_SIGNALS_H
#define HOMEFREE_ALLOC_BASE_CRASH_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

static const int hf_crash_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
enum { HF_CRASH_SIGNALS = sizeof hf_crash_signals / sizeof hf_crash_signals[0] };

static inline bool hf_is_crash(int signal_number)
{
    for (size_t i = 0; i < HF_CRASH_SIGNALS; i++)
        if (hf_crash_signals[i] == signal_number)
            return true;
    return false;
}

#endif
