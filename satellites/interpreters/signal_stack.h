/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stack for signal handlers, so that a thread whose own stack has overflowed can still say where.
 * Owns nothing; each function is called by the thread that the stack is for.
 */
#ifndef HOMEFREE_SATELLITES_INTERPRETERS_SIGNAL_STACK_H
#define HOMEFREE_SATELLITES_INTERPRETERS_SIGNAL_STACK_H

#include <stddef.h>

struct hf_signal_stack {
    void *start; /* NULL: not made; what lies there is mapped */
    size_t size;
};

/* Gives the calling thread one, unless it has one already, of whoever's. */
void hf_signal_stack_give(struct hf_signal_stack *stack);

/* Takes it away again and unmaps it, unless the thread uses another one by now, whose owner may
 * come back to it. */
void hf_signal_stack_take(struct hf_signal_stack *stack);

#endif
