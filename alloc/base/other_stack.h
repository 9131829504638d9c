/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls a function on another stack. Not makecontext(3): AddressSanitizer replaces swapcontext(),
 * and then writes a warning into every process. Owns nothing; any thread, any stage.
 */
#ifndef HOMEFREE_ALLOC_BASE_OTHER_STACK_H
#define HOMEFREE_ALLOC_BASE_OTHER_STACK_H

/* top: the end of the stack, a multiple of 16. On other processors the thread's own stack serves.
 */
static inline void hf_call_on_stack(char *top, void (*function)(void))
{
#if defined(__x86_64__)
    __asm__ volatile("movq %%rsp, %%rbx\n\t"
                     "movq %0, %%rsp\n\t"
                     "call *%1\n\t"
                     "movq %%rbx, %%rsp"
                     :
                     : "r"(top), "r"(function)
                     : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0",
                       "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                       "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc", "memory");
#elif defined(__aarch64__)
    __asm__ volatile("mov x19, sp\n\t"
                     "mov sp, %0\n\t"
                     "blr %1\n\t"
                     "mov sp, x19"
                     :
                     : "r"(top), "r"(function)
                     : "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11",
                       "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x19", "x30", "v0", "v1",
                       "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13",
                       "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24",
                       "v25", "v26", "v27", "v28", "v29", "v30", "v31", "cc", "memory");
#else
    (void)top;
    function();
#endif
}

#endif
