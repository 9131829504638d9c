/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See crash.h. Owns nothing.
 */
#include "alloc/diagnose/crash.h"

#include "alloc/base/call_frames.h"
#include "alloc/base/dynlink.h"
#include "alloc/base/maps.h"
#include "alloc/diagnose/findings.h"
#include "alloc/diagnose/footers.h"
#include "alloc/diagnose/guarded_samples.h"
#include "alloc/diagnose/plain.h"
#include "alloc/diagnose/sites.h"
#include "alloc/heap/internal.h"
#include "alloc/owner/foreign.h"
#include "alloc/owner/release_crash.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

/* The dynamic linker's own blocks hold thread-local data, such as the allocator's. */
static bool is_linkers(uint32_t site)
{
    enum hf_report_function function;
    struct hf_object object;
    const void *caller = hf_site_address(site, &function);
    const struct link_map *map = caller != NULL ? hf_dynlink_find_fast(caller) : NULL;
    return map != NULL && hf_dynlink_open(map, &object) && object.soname != NULL &&
           strncmp(object.soname, "ld", 2) == 0;
}

/* The live block that holds an address; NULL: none, or one of the dynamic linker's. */
static const void *find_block(const void *ptr, struct hf_footer *footer, size_t *size)
{
    const void *block = NULL;
    if (hf_guarded_holds(ptr)) {
        block = hf_guarded_described(ptr, footer, size);
    } else if (hf_owned(ptr) && hf_forward == NULL) {
        const size_t capacity = hf_plain_block(ptr, &block);
        if (capacity == 0 || hf_footer_read(block, capacity, footer) != HF_FOOTER_LIVE)
            return NULL;
        *size = hf_footer_asked(capacity, *footer);
    }
    return block != NULL && !is_linkers(footer->site) ? block : NULL;
}

/* What is known of the block that begins at the event's address. */
static void say_block(struct hf_event *event)
{
    struct hf_footer footer;
    size_t size;
    if (event->ptr == NULL || find_block(event->ptr, &footer, &size) != event->ptr)
        return;
    event->allocator = "heap";
    event->allocated_site = footer.site;
    event->bytes = size != SIZE_MAX ? size : 0;
}

/* ---- an allocator that faults ---- */

static bool is_block(const void *value, const struct link_map *map)
{
    struct hf_footer footer;
    size_t size;
    (void)map;
    return find_block(value, &footer, &size) != NULL;
}

static void judge_fault(const siginfo_t *info, const void *context)
{
    struct hf_release_crash crash;
    if (!hf_release_crash_find(info, context, is_block, &crash) || crash.block == NULL)
        return;
    struct hf_event event = {
        .rule = HF_FAULT_FOREIGN_FREE,
        .ptr = crash.block,
        /* As a return address, one byte behind the instruction. */
        .freed_site = hf_site_of((const char *)crash.code + 1, HF_FUNCTION_unknown).number,
    };
    say_block(&event);
    hf_finding(&event);
}

/* ---- an allocator that notices ---- */

/*
 * tcmalloc aborts, or in later releases traps, with a line that ends in the pointer. The line
 * lies on the stack, below the return addresses of the function that wrote it and of those that
 * called it.
 */
static const char complaint[] = "free invalid pointer 0x";
enum { STACK_MAX = 16 * 1024, STACK_PART = 1024 };

struct stack {
    const char *start;
    size_t size;
    char bytes[STACK_MAX];
};

static void read_stack(const ucontext_t *thread, struct stack *stack)
{
    uintptr_t start = 0;
#if defined(__x86_64__)
    start = (uintptr_t)thread->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
    start = (uintptr_t)thread->uc_mcontext.sp;
#else
    (void)thread;
#endif
    stack->start = (const char *)(start & -sizeof(uintptr_t));
    for (stack->size = 0; start != 0 && stack->size < sizeof stack->bytes;
         stack->size += STACK_PART)
        if (!hf_maps_read(stack->start + stack->size, stack->bytes + stack->size, STACK_PART))
            return;
}

/* Whether an address follows a call in an object, which is stored. */
static bool is_return_address(uintptr_t address, const struct link_map **map)
{
    *map = hf_dynlink_find_fast((const void *)(address - 1));
    return *map != NULL && hf_frame_follows_call(address);
}

/* The call that the allocator complains about: the second one above the line, in the function that
 * called the allocator. NULL if the line is no allocator's. */
static const void *find_complained(const struct stack *stack, size_t at)
{
    const struct link_map *map;
    bool inside = false;
    for (at = (at + sizeof at) & -sizeof at; at + sizeof at <= stack->size; at += sizeof at) {
        uintptr_t word;
        memcpy(&word, stack->bytes + at, sizeof word);
        if (!is_return_address(word, &map))
            continue;
        if (inside)
            return (const void *)word;
        inside = hf_foreign_lives_in(map);
    }
    return NULL;
}

/* False if no allocator has complained. */
static bool judge_complaint(const ucontext_t *thread)
{
    static struct stack stack; /* crashes are judged one after the other */
    struct hf_event event = {.rule = HF_FAULT_FOREIGN_FREE};
    read_stack(thread, &stack);
    const char *line = memmem(stack.bytes, stack.size, complaint, sizeof complaint - 1);
    if (line == NULL)
        return false;
    const char *end = stack.bytes + stack.size;
    uintptr_t address = 0;
    for (line += sizeof complaint - 1; line < end; line++) {
        const int digit = *line >= '0' && *line <= '9'   ? *line - '0'
                          : *line >= 'a' && *line <= 'f' ? *line - 'a' + 10
                                                         : -1;
        if (digit < 0)
            break;
        address = address * 16 + (uintptr_t)digit;
    }
    const void *caller = find_complained(&stack, (size_t)(line - stack.bytes));
    if (caller == NULL || address == 0)
        return false;
    event.ptr = (const void *)address;
    event.freed_site = hf_site_of(caller, HF_FUNCTION_unknown).number;
    say_block(&event);
    hf_finding(&event);
    return true;
}

void hf_crash_judge(const siginfo_t *info, const void *context)
{
    const int number = info->si_signo;
    const bool complains = number == SIGABRT || number == SIGILL || number == SIGTRAP;
    if (!complains || !judge_complaint(context))
        judge_fault(info, context);
}
