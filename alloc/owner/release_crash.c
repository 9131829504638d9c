/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See release_crash.h. Owns nothing.
 */
#include "alloc/owner/release_crash.h"

#include "alloc/base/call_frames.h"
#include "alloc/base/symbol.h"
#include "alloc/owner/foreign.h"

#include <string.h>
#include <ucontext.h>

enum {
    OTHERS_MAX = 8, /* frames of libc and the C++ runtime above the object's, such as abort()'s */
    FRAMES_MAX = 16,
    REGISTERS_MAX = 16,
    HEADERS = 64 << 10, /* where a chunk of memory begins, as far as anyone keeps its books */
    INDEX_BITS = 13,    /* of a table's last level, at the least: jemalloc has 16 or 18 */
    HELD_MIN = 32,      /* registers hold smaller numbers for other reasons */
    PAGE_MIN = 12,
    PAGE_MAX = 21,
    CHUNK_MAX = 30
};

/* ---- by name ---- */

/* C++ functions are an allocator's if its namespace says so: others free nodes and lists. */
static bool is_release_name(const char *name)
{
    const bool plus = strncmp(name, "_Z", 2) == 0;
    return strncmp(name, "_Zdl", 4) == 0 || strncmp(name, "_Zda", 4) == 0 ||
           ((!plus || strstr(name, "8tcmalloc") != NULL || strstr(name, "8snmalloc") != NULL) &&
            (strcasestr(name, "free") != NULL || strstr(name, "dalloc") != NULL ||
             strstr(name, "dealloc") != NULL || strstr(name, "ralloc") != NULL ||
             strstr(name, "realloc") != NULL));
}

enum named { NAMELESS, OTHER, RELEASES };

static enum named name_of(const struct link_map *map, uintptr_t code)
{
    struct hf_object object;
    struct hf_symbol symbol;
    if (!hf_dynlink_open(map, &object) || !hf_symbol_find(&object, code, &symbol) || !symbol.covers)
        return NAMELESS;
    return is_release_name(symbol.name) ? RELEASES : OTHER;
}

/* The functions of the object that are on the stack, the innermost first. NAMELESS if that one has
 * no name, and none of them is known to free. */
static enum named name_frames(struct hf_frame *frame, struct hf_release_crash *out, bool *innermost)
{
    enum named first = NAMELESS;
    *out = (struct hf_release_crash){.map = NULL};
    *innermost = true;
    for (int i = 0; i < FRAMES_MAX; i++) {
        const uintptr_t code = frame->code - frame->called;
        const struct link_map *map = hf_dynlink_find_fast((const void *)code);
        const bool holds = map != NULL && hf_foreign_lives_in(map);
        if (out->map == NULL && holds) {
            out->map = map;
            out->code = (const void *)code;
            *innermost = i == 0;
        }
        if (out->map != NULL ? map != out->map : i >= OTHERS_MAX)
            break;
        const enum named named = out->map != NULL ? name_of(map, code) : NAMELESS;
        if (named == RELEASES)
            return RELEASES;
        if ((const void *)code == out->code)
            first = named;
        if (!hf_frame_leave(frame) || frame->code == 0)
            break;
    }
    return first;
}

/* ---- by address ---- */

/* Registers in which a function that frees may still hold its argument: the argument's own first,
 * then those that a called function preserves. */
static size_t read_registers(const ucontext_t *thread, uintptr_t out[REGISTERS_MAX])
{
    size_t count = 0;
#if defined(__x86_64__)
    static const int numbers[] = {REG_RDI, REG_RSI, REG_RBX, REG_RBP, REG_R12,
                                  REG_R13, REG_R14, REG_R15, REG_RAX, REG_RDX};
    for (; count < sizeof numbers / sizeof numbers[0]; count++)
        out[count] = (uintptr_t)thread->uc_mcontext.gregs[numbers[count]];
#elif defined(__aarch64__)
    static const int numbers[] = {0, 1, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28};
    for (; count < sizeof numbers / sizeof numbers[0]; count++)
        out[count] = (uintptr_t)thread->uc_mcontext.regs[numbers[count]];
#else
    (void)thread;
    (void)out;
#endif
    return count;
}

static bool register_holds(const ucontext_t *thread, uintptr_t value)
{
    if (value < HELD_MIN)
        return false;
#if defined(__x86_64__)
    for (int i = REG_R8; i <= REG_RCX; i++)
        if ((uintptr_t)thread->uc_mcontext.gregs[i] == value)
            return true;
#elif defined(__aarch64__)
    for (int i = 0; i <= 30; i++)
        if ((uintptr_t)thread->uc_mcontext.regs[i] == value)
            return true;
#else
    (void)thread;
#endif
    return false;
}

/* Whether the number of a block's page has certain lowest bits, for pages of any size. */
static bool is_index(uintptr_t index, uintptr_t mask, uintptr_t block)
{
    for (unsigned shift = PAGE_MIN; shift <= PAGE_MAX; shift++)
        if (((block >> shift) & mask) == index)
            return true;
    return false;
}

/*
 * Whether a fault is where an allocator keeps what it knows about a block: right before it, where
 * the page or a larger chunk around it begins, or in a table that the page's number leads into, of
 * which there is nothing.
 *
 * The first entries of such a table lie where a null pointer leads that is followed to a member.
 * The member's place is part of the instruction, while the entry's was computed: a register has it,
 * or its index.
 */
static bool is_computed(uintptr_t fault, uintptr_t block, const ucontext_t *thread)
{
    const bool low = fault >> PAGE_MIN == 0;
    for (unsigned shift = PAGE_MIN; !low && shift <= CHUNK_MAX; shift++)
        if (fault < block && fault - (block & -((uintptr_t)1 << shift)) < HEADERS)
            return true;
    for (unsigned entry = 3; entry <= 4; entry++) {
        const uintptr_t index = fault >> entry;
        const uintptr_t mask =
            low ? ((uintptr_t)1 << INDEX_BITS) - 1 : ~(uintptr_t)0 >> __builtin_clzl(index);
        if (low && !register_holds(thread, fault) && !register_holds(thread, index))
            continue;
        if (is_index(index, mask, block))
            return true;
    }
    return false;
}

bool hf_release_crash_find(const siginfo_t *info, const void *context,
                           bool (*is_block)(const void *value, const struct link_map *map),
                           struct hf_release_crash *out)
{
    uintptr_t registers[REGISTERS_MAX];
    struct hf_frame frame = hf_frame_of(context);
    bool innermost;
    const enum named named = name_frames(&frame, out, &innermost);
    const bool faults =
        info->si_code > 0 && (info->si_signo == SIGSEGV || info->si_signo == SIGBUS);
    if (out->map == NULL || named == OTHER || (named == NAMELESS && !(innermost && faults)))
        return false;
    const size_t count = innermost ? read_registers(context, registers) : 0;
    for (size_t i = 0; i < count && out->block == NULL; i++)
        if ((named == RELEASES || is_computed((uintptr_t)info->si_addr, registers[i], context)) &&
            is_block((const void *)registers[i], out->map))
            out->block = (const void *)registers[i];
    return named == RELEASES || out->block != NULL;
}
