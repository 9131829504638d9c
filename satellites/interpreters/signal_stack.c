/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing.
 */
#include "satellites/interpreters/signal_stack.h"

#include <signal.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#if !defined(AT_MINSIGSTKSZ)
#    define AT_MINSIGSTKSZ 51
#endif

/* For the handlers themselves, the host's too; the kernel's frame comes on top of it. */
enum { ROOM = 64 * 1024 };

void hf_signal_stack_give(struct hf_signal_stack *stack)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t size = (ROOM + getauxval(AT_MINSIGSTKSZ) + page - 1) & -page;
    stack_t now;
    if (stack->start != NULL || sigaltstack(NULL, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0)
        return;
    /* One page below it stays without access. */
    void *start = mmap(NULL, page + size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return;
    const stack_t ours = {.ss_sp = (char *)start + page, .ss_size = size};
    if (mprotect(ours.ss_sp, size, PROT_READ | PROT_WRITE) != 0 || sigaltstack(&ours, NULL) != 0) {
        (void)munmap(start, page + size);
        return;
    }
    *stack = (struct hf_signal_stack){start, page + size};
}

void hf_signal_stack_take(struct hf_signal_stack *stack)
{
    const stack_t none = {.ss_flags = SS_DISABLE};
    stack_t now;
    const uintptr_t start = (uintptr_t)stack->start;
    if (stack->start == NULL || sigaltstack(NULL, &now) != 0 ||
        (uintptr_t)now.ss_sp - start >= stack->size || sigaltstack(&none, NULL) != 0)
        return;
    (void)munmap(stack->start, stack->size);
    *stack = (struct hf_signal_stack){NULL, 0};
}
