/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The call frame information (.eh_frame) of the loaded objects: how it leads from a frame to its
 * caller's.
 *
 * Owns what hf_frame_leave_own() remembers. Any thread, at any stage, in a signal handler: no
 * locks, no allocation. Finds nothing before glibc 2.35, because finding an object would take the
 * loader's lock.
 */
#ifndef HOMEFREE_ALLOC_BASE_CALL_FRAMES_H
#define HOMEFREE_ALLOC_BASE_CALL_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the instruction before an address is a call, as far as its bytes tell. Reads without
 * faulting. */
bool hf_frame_follows_call(uintptr_t address);

/* The registers of a frame, as far as callers are found with them. Every value may be garbage. */
struct hf_frame {
    uintptr_t code, stack, pointer; /* program counter, stack pointer, frame pointer */
    uintptr_t link;                 /* aarch64's link register, in an interrupted function */
    bool called;                    /* `code` is where a call returns to */
};

/* The frame that a signal interrupted, by the handler's ucontext_t. */
struct hf_frame hf_frame_of(const void *context);

/* The calling function's own. */
static inline __attribute__((always_inline)) struct hf_frame hf_frame_here(void)
{
    struct hf_frame frame = {.called = false};
#if defined(__x86_64__)
    __asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2"
                     : "=&r"(frame.code), "=&r"(frame.stack), "=&r"(frame.pointer));
#elif defined(__aarch64__)
    __asm__ volatile("adr %0, .\n\tmov %1, sp\n\tmov %2, x29\n\tmov %3, x30"
                     : "=&r"(frame.code), "=&r"(frame.stack), "=&r"(frame.pointer),
                       "=&r"(frame.link));
#endif
    return frame;
}

/* Goes on to the caller's frame, whose `code` is 0 after a thread's outermost function. Returns
 * false, and leaves the frame as it is, if the function has no description, or one that needs other
 * registers, or if the stack cannot be as it says. Reads tables and the stack without faulting; if
 * they are damaged `code` may be any value. The stack pointer only grows. Ends at a signal's frame.
 */
bool hf_frame_leave(struct hf_frame *frame);

/* The same, quickly, for the calling thread's own frames: objects are believed to have no holes
 * where their tables lead, what they say is remembered, and the kernel is asked for a page of the
 * stack when it is first seen (hf_maps_has). Where an object was unloaded and another one lies
 * there now, a stack may end early or go astray. What a signal interrupted comes with its
 * instruction as `code`, not `called`; its stack may lie anywhere. */
bool hf_frame_leave_own(struct hf_frame *frame);

/* The same for who recovers from the fault of a damaged stack: no system call. */
bool hf_frame_leave_believing(struct hf_frame *frame);

#endif
