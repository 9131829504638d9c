/*
 * See crash.h. Owns nothing.
 */
#include "alloc/diagnose/crash.h"

#include "alloc/base/dynlink.h"
#include "alloc/diagnose/findings.h"
#include "alloc/diagnose/plain.h"
#include "alloc/diagnose/sites.h"
#include "alloc/diagnose/trailers.h"
#include "alloc/heap/internal.h"
#include "alloc/owner/foreign.h"

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

void hf_crash_judge(const void *context)
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
