/*
 * See crash.h. Owns nothing.
 */
#include "alloc/diagnose/crash.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/maps.h"
#include "alloc/diagnose/findings.h"
#include "alloc/diagnose/plain.h"
#include "alloc/diagnose/sites.h"
#include "alloc/diagnose/trailers.h"
#include "alloc/heap/internal.h"
#include "alloc/owner/foreign.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

/* The registers in which an allocator's free may still hold its argument: the argument's own first,
 * then those that a called function preserves. */
static size_t read_registers(const ucontext_t *thread, uintptr_t out[16], const void **code)
{
    size_t count = 0;
#if defined(__x86_64__)
    static const int numbers[] = {REG_RDI, REG_RSI, REG_RBX, REG_RBP, REG_R12,
                                  REG_R13, REG_R14, REG_R15, REG_RAX, REG_RDX};
    for (; count < sizeof numbers / sizeof numbers[0]; count++)
        out[count] = (uintptr_t)thread->uc_mcontext.gregs[numbers[count]];
    *code = (const void *)(uintptr_t)thread->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    static const int numbers[] = {0, 1, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28};
    for (; count < sizeof numbers / sizeof numbers[0]; count++)
        out[count] = (uintptr_t)thread->uc_mcontext.regs[numbers[count]];
    *code = (const void *)(uintptr_t)thread->uc_mcontext.pc;
#else
    (void)thread;
    (void)out;
    *code = NULL;
#endif
    return count;
}

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

static bool is_live_block(const void *ptr, struct hf_trailer *trailer, size_t *size)
{
    const void *block;
    size_t room = hf_owned(ptr) && hf_forward == NULL ? hf_plain_block(ptr, &block) : 0;
    if (room == 0 || block != ptr || hf_trailer_read(ptr, room, trailer) != HF_TRAILER_LIVE ||
        is_linkers(trailer->site))
        return false;
    *size = hf_trailer_asked(room, *trailer);
    return true;
}

/* ---- an allocator that faults ---- */

static void judge_fault(const ucontext_t *context)
{
    uintptr_t registers[16];
    const void *code;
    size_t count = read_registers(context, registers, &code), size;
    const struct link_map *map = code != NULL ? hf_dynlink_find_fast(code) : NULL;
    struct hf_trailer trailer;
    if (map == NULL || !hf_foreign_lives_in(map))
        return;
    struct hf_event event = {
        .rule = HF_FAULT_FOREIGN_FREE,
        /* As a return address, one byte behind the instruction. */
        .freed_site = hf_site_of((const char *)code + 1, HF_FUNCTION_unknown).number,
    };
    for (size_t i = 0; i < count && event.ptr == NULL; i++)
        if (is_live_block((const void *)registers[i], &trailer, &size)) {
            event.ptr = (const void *)registers[i];
            event.allocator = "heap";
            event.allocated_site = trailer.site;
            event.bytes = size != SIZE_MAX ? size : 0;
        }
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
    unsigned char code[6];
    *map = hf_dynlink_find_fast((const void *)(address - 1));
    if (*map == NULL || !hf_maps_read((const void *)(address - sizeof code), code, sizeof code))
        return false;
#if defined(__x86_64__)
    return code[1] == 0xe8 || (code[0] == 0xff && code[1] == 0x15) ||
           (code[4] == 0xff && (code[5] & 0xf8) == 0xd0);
#else /* AArch64: bl, blr */
    return (code[5] & 0xfc) == 0x94 || (code[5] == 0xd6 && (code[4] & 0xff) == 0x3f);
#endif
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
    struct hf_trailer trailer;
    size_t size;
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
    if (is_live_block(event.ptr, &trailer, &size)) {
        event.allocator = "heap";
        event.allocated_site = trailer.site;
        event.bytes = size != SIZE_MAX ? size : 0;
    }
    hf_finding(&event);
    return true;
}

void hf_crash_judge(int number, const void *context)
{
    const bool complains = number == SIGABRT || number == SIGILL || number == SIGTRAP;
    if (complains && judge_complaint(context))
        return;
    if (number != SIGABRT && number != SIGFPE && number != SIGTRAP)
        judge_fault(context);
}
