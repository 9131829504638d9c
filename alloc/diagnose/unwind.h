/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calling thread's stack, by call_frames.h. It is believed where a fault would be noticed here;
 * elsewhere the kernel is asked for each word, and the stack ends at a signal's frame.
 *
 * Any thread, at any stage, in a signal handler, without a lock. A stack that cannot be followed
 * ends early. Before glibc 2.35 every stack is empty, because finding an object would take the
 * loader's lock.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_UNWIND_H
#define HOMEFREE_ALLOC_DIAGNOSE_UNWIND_H

#include <stdbool.h>
#include <stddef.h>

enum { HF_UNWIND_MAX = 48 };

/* Stores the return addresses of the calling thread's frames, innermost first, from the one that
 * returns to `caller` on; if that is not found, from the first one outside this library. Returns
 * their number, which is at most `most`. */
size_t hf_unwind(const void *caller, const void *frames[HF_UNWIND_MAX], size_t most);

/* The same for what a signal has interrupted, from that instruction on: its address comes first, as
 * a return address is. context: a ucontext_t. Needs little stack. */
size_t hf_unwind_interrupted(const void *context, const void *frames[HF_UNWIND_MAX]);

/* Tells how to ask whether hf_unwind_recover() would be called now for a fault of this thread. */
void hf_unwind_start(bool (*recovers)(void));

/* Calls `work`, which reads memory that may not be there, calls nothing outside this library, and
 * needs little stack. Returns whether it came to its end. */
bool hf_unwind_guard(void (*work)(void *), void *argument);

/* For the handlers of SIGSEGV and SIGBUS: if the thread was reading a damaged stack, ends that
 * stack, and does not return. context: a ucontext_t. */
void hf_unwind_recover(const void *context);

#endif
