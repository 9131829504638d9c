/* SPDX-License-Identifier: BSD-2-Clause */
/* See accesses.h. */
#include "alloc/diagnose/accesses.h"

#include "alloc/diagnose/elsewhere.h"
#include "alloc/diagnose/findings.h"
#include "alloc/diagnose/guarded_samples.h"
#include "alloc/diagnose/report_file.h"
#include "alloc/diagnose/unwind.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

enum {
    REPEATS_MAX = 16, /* of one fault */
    PAGE_FAULT_WRITE = 2
};

#if defined(__aarch64__)
/* Whether a fault was a read or a write. The kernel's frame has records in its reserved part, each
 * with a kind and a size; one is the syndrome register (Linux, asm/sigcontext.h), whose class,
 * bits 26 to 31, is 0x24 for a data access of user code, and whose bit 6 is set for a write. */
static enum hf_report_function kind_of_access(const ucontext_t *context)
{
    enum { DATA_ABORT = 0x24, WRITES = 1 << 6 };
    const unsigned char *records = context->uc_mcontext.__reserved;
    const size_t capacity = sizeof context->uc_mcontext.__reserved;
    struct esr_context record;
    for (size_t at = 0; at + sizeof record <= capacity; at += record.head.size) {
        memcpy(&record, records + at, sizeof record);
        if (record.head.magic == ESR_MAGIC && (record.esr >> 26 & 63) == DATA_ABORT)
            return (record.esr & WRITES) != 0 ? HF_FUNCTION_write : HF_FUNCTION_read;
        if (record.head.magic == 0 || record.head.size < sizeof record.head)
            break;
    }
    return HF_FUNCTION_access;
}
#endif

/* The instruction, as a return address is: one byte behind its first. NULL: unknown. */
static const void *instruction_of(const ucontext_t *context, enum hf_report_function *function)
{
#if defined(__x86_64__)
    const greg_t *registers = context->uc_mcontext.gregs;
    *function = (registers[REG_ERR] & PAGE_FAULT_WRITE) != 0 ? HF_FUNCTION_write : HF_FUNCTION_read;
    return (const char *)(uintptr_t)registers[REG_RIP] + 1;
#elif defined(__aarch64__)
    *function = kind_of_access(context);
    return (const char *)(uintptr_t)context->uc_mcontext.pc + 1;
#else
    (void)context;
    *function = HF_FUNCTION_access;
    return NULL;
#endif
}

static void record(void *event)
{
    hf_finding(event);
}

static void find(struct hf_event *event, const ucontext_t *context)
{
    const void *frames[HF_UNWIND_MAX];
    enum hf_report_function function;
    const void *instruction = instruction_of(context, &function);
    event->freed_site = hf_site_of(instruction, function).number;
    event->freed = (struct hf_event_stack){frames, hf_unwind_interrupted(context, frames)};
    if (!hf_elsewhere(record, event))
        hf_report_drop();
}

/* Whether the thread repeats a fault that no change of ours can explain: then the program has
 * protected its block itself, such as for a write barrier, and the fault is its handler's. */
static bool repeats(const void *address)
{
    static __thread struct {
        const void *address;
        uint64_t changes;
        unsigned count;
    } last __attribute__((tls_model("initial-exec")));
    const uint64_t changes = hf_guarded_changes();
    if (last.address != address)
        last.count = 0;
    else if (last.changes == changes || ++last.count == REPEATS_MAX) {
        last.address = NULL;
        return true;
    }
    last.address = address;
    last.changes = changes;
    return false;
}

static __attribute__((noinline)) bool judge(const void *address, const ucontext_t *context)
{
    struct hf_event event;
    sigset_t all, before;
    const int saved_errno = errno;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const enum hf_guarded_verdict verdict = hf_guarded_judge(address, &event);
    bool goes_on = verdict == HF_GUARDED_FINE && !repeats(address);
    if (verdict == HF_GUARDED_FREED || verdict == HF_GUARDED_OUTSIDE) {
        find(&event, context);
        goes_on = hf_guarded_open(address);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved_errno;
    return goes_on;
}

bool hf_access_fault(const siginfo_t *info, const void *context)
{
    return info->si_code == SEGV_ACCERR && hf_guarded_holds(info->si_addr) &&
           judge(info->si_addr, context);
}
